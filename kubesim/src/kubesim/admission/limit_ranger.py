# SPDX-License-Identifier: BSD-2-Clause
"""LimitRanger: defaults from the LimitRanges of the namespace, and their bounds.

Source: plugin/pkg/admission/limitranger/admission.go.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesim.admission.request import AdmissionRequest, Object
from kubesim.kinds.pod_resources import Amounts, pod_limits, pod_requests
from kubesim.quantity import Quantity, parse_list

ANNOTATION = "kubernetes.io/limit-ranger"


def admit(request: AdmissionRequest) -> None:
    if request.obj is not None and request.concerns("Pod", "CREATE"):
        for limit_range in request.registry.list("LimitRange", request.namespace):
            _fill_in(request.obj, limit_range)


def validate(request: AdmissionRequest) -> None:
    if request.obj is None or not request.concerns("Pod", "CREATE"):
        return
    for limit_range in request.registry.list("LimitRange", request.namespace):
        violations = list(dict.fromkeys(_pod_violations(request.obj, limit_range["spec"].get("limits") or [])))
        if violations:
            raise request.forbidden(violations[0] if len(violations) == 1 else f"[{', '.join(violations)}]")


def _fill_in(pod: Object, limit_range: Object) -> None:
    """mergePodResourceRequirements; an annotation says what was filled in."""
    items = [item for item in limit_range["spec"].get("limits") or () if item.get("type") == "Container"]
    limits = {name: value for item in items for name, value in item.get("default", {}).items()}
    requests = {name: value for item in items for name, value in item.get("defaultRequest", {}).items()}
    said = []
    for key, what in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(key) or ():
            for kind, defaults in (("request", requests), ("limit", limits)):
                if added := _merge(container, f"{kind}s", defaults):
                    said.append(f"{', '.join(sorted(added))} {kind} for {what} {container.get('name', '')}")
    if said:
        text = "LimitRanger plugin set: " + "; ".join(said)
        pod["metadata"]["annotations"] = (pod["metadata"].get("annotations") or {}) | {ANNOTATION: text}


def _merge(container: Object, key: str, defaults: dict[str, str]) -> list[str]:
    resources = container.setdefault("resources", {})
    present = resources.get(key) or {}
    added = [name for name in defaults if name not in present]
    if added:
        resources[key] = {name: defaults[name] for name in added} | present
    return added


def _pod_violations(pod: Object, limits: list[Object]) -> Iterator[str]:
    spec = pod["spec"]
    for item in limits:
        if item.get("type") == "Container":
            for key in ("containers", "initContainers"):
                for container in spec.get(key) or ():
                    resources = container.get("resources") or {}
                    requests, limited = parse_list(resources.get("requests")), parse_list(resources.get("limits"))
                    yield from _violations(item, requests, limited)
        elif item.get("type") == "Pod":
            yield from _violations(item, pod_requests(spec), pod_limits(spec))


def _violations(item: Object, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for name, bound in sorted(parse_list(item.get("min")).items()):
        yield from _below(item["type"], name, bound, requests.get(name), limits.get(name))
    for name, bound in sorted(parse_list(item.get("max")).items()):
        yield from _above(item["type"], name, bound, requests.get(name), limits.get(name))
    for name, bound in sorted(parse_list(item.get("maxLimitRequestRatio")).items()):
        yield from _ratio(item["type"], name, bound, requests.get(name), limits.get(name))


def _below(kind: str, name: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> Iterator[str]:
    text = f"minimum {name} usage per {kind} is {bound}"
    if request is None:
        yield f"{text}.  No request is specified"
    elif request < bound:
        yield f"{text}, but request is {request}"
    elif limit is not None and limit < bound:
        yield f"{text}, but limit is {limit}"


def _above(kind: str, name: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> Iterator[str]:
    text = f"maximum {name} usage per {kind} is {bound}"
    if limit is None:
        yield f"{text}.  No limit is specified"
    elif limit > bound:
        yield f"{text}, but limit is {limit}"
    elif request is not None and request > bound:
        yield f"{text}, but request is {request}"


def _ratio(kind: str, name: str, bound: Quantity, request: Quantity | None, limit: Quantity | None) -> Iterator[str]:
    text = f"{name} max limit to request ratio per {kind} is {bound}"
    if not request:
        yield f"{text}, but no request is specified or request is 0"
    elif not limit:
        yield f"{text}, but no limit is specified or limit is 0"
    elif (ratio := limit.amount / request.amount) > bound.amount:
        yield f"{text}, but provided ratio is {float(ratio):f}"
