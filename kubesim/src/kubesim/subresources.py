# SPDX-License-Identifier: BSD-2-Clause
"""Subresources that are not simply a part of their object: scale, log, eviction, binding, token.

Source: pkg/registry/apps/*/storage (ScaleREST), pkg/registry/core/pod/rest/log.go, pkg/registry/core/pod/storage
(BindingREST, EvictionREST), pkg/registry/core/serviceaccount/storage/token.go.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from kubesim import deletion, errors, media
from kubesim.backend import Backend
from kubesim.calls import Answer, Call
from kubesim.clock import parse_time, rfc3339
from kubesim.field import FieldError, forbidden, invalid
from kubesim.options import read_write_options
from kubesim.patch import patched
from kubesim.registry import Write
from kubesim.resources import Resource
from kubesim.scale import SCALE_RESOURCE, scale_of
from kubesim.selectors import matches_label_selector

Object = dict[str, Any]
SUCCESS = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def handle(backend: Backend, call: Call) -> Answer | None:
    """The answer, or None when the subresource is an ordinary part of its object."""
    handler = _HANDLERS.get(call.info.subresource)
    return handler(backend, call) if handler else None


# --- scale ------------------------------------------------------------------------------------------------------------


def _scale(backend: Backend, call: Call) -> Answer:
    resource, info = call.resource, call.info
    stored = backend.registry.require(resource, info.namespace, info.name)
    current = scale_of(stored.obj)
    if info.verb == "get":
        return Answer(current)
    kind = media.PATCH_TYPES.get(call.content_type.partition(";")[0].strip()) if info.verb == "patch" else "put"
    if kind is None or kind == "apply":
        raise errors.ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})
    options_kind = "UpdateOptions" if kind == "put" else "PatchOptions"
    options = read_write_options(call.query, options_kind, call.user_agent)
    write = Write(resource, call.user, options.manager, "scale", options.dry_run, call.warnings)
    if kind == "put":
        new, problems = media.read_object(
            call.body, call.content_type, SCALE_RESOURCE, "Scale", "autoscaling/v1", options.validation
        )
    else:
        new, problems = patched(current, kind, call.body, options.validation)
    call.warnings += problems
    changed = copy.deepcopy(stored.obj)
    changed["spec"]["replicas"] = _checked_replicas(new, info.name)
    version = new["metadata"].get("resourceVersion")
    if version:
        changed["metadata"]["resourceVersion"] = version
    return Answer(scale_of(backend.registry.admit_change(changed, stored.obj, write)))


def _checked_replicas(scale: Object, name: str) -> int:
    """autoscaling validation.ValidateScale."""
    replicas: int = scale.get("spec", {}).get("replicas", 0)
    if replicas < 0:
        found = [invalid("spec.replicas", replicas, "must be greater than or equal to 0")]
        raise errors.invalid("Scale", name, found, "autoscaling")
    return replicas


# --- log --------------------------------------------------------------------------------------------------------------


def _log(backend: Backend, call: Call) -> Answer:
    pod = backend.registry.require(call.resource, call.info.namespace, call.info.name).obj
    query = call.query
    numbers = {name: query.number(name) for name in ("tailLines", "limitBytes", "sinceSeconds")}
    found = _log_errors(numbers, query.text("sinceTime"))
    if found:
        raise errors.invalid("PodLogOptions", call.info.name, found)
    container = container_named(pod, query.text("container"))
    if not pod["spec"].get("nodeName"):
        return Answer(b"", 204, content_type="text/plain")
    _require_kubelet(backend, pod, container)
    since = None
    if numbers["sinceSeconds"] is not None:
        since = backend.registry.clock.now() - timedelta(seconds=numbers["sinceSeconds"])
    elif query.text("sinceTime"):
        # The API server passes it on in seconds (pkg/registry/core/pod/strategy.go, LogLocation).
        since = parse_time(query.text("sinceTime")).replace(microsecond=0)
    if query.flag("follow") and not query.flag("previous"):
        followed = backend.kubelet.followed_log(
            pod, container, tail=numbers["tailLines"], since=since, timestamps=query.flag("timestamps")
        )
        return Answer(followed, content_type="text/plain")
    text: str = backend.kubelet.logs(
        pod,
        container,
        previous=query.flag("previous"),
        tail=numbers["tailLines"],
        since=since,
        timestamps=query.flag("timestamps"),
        limit_bytes=numbers["limitBytes"],
    )
    return Answer(text.encode(), content_type="text/plain")


def _require_kubelet(backend: Backend, pod: Object, container: str) -> None:
    """The error of the API server's connection to a kubelet that has stopped: its node is no longer ready."""
    node = backend.registry.get("Node", None, pod["spec"]["nodeName"])
    conditions = (node or {}).get("status", {}).get("conditions") or ()
    if any(one["type"] == "Ready" and one["status"] == "Unknown" for one in conditions):
        addresses = node["status"].get("addresses") or () if node else ()
        host = next((one["address"] for one in addresses if one["type"] == "InternalIP"), "10.0.0.1")
        path = f"containerLogs/{pod['metadata']['namespace']}/{pod['metadata']['name']}/{container}"
        refused = f"dial tcp {host}:10250: connect: connection refused"
        raise errors.ApiError(500, "InternalError", f'Get "https://{host}:10250/{path}": {refused}')


def _log_errors(numbers: dict[str, int | None], since_time: str) -> list[FieldError]:
    """core validation.ValidatePodLogOptions."""
    found = []
    tail, limit, since = numbers["tailLines"], numbers["limitBytes"], numbers["sinceSeconds"]
    if tail is not None and tail < 0:
        found.append(invalid("tailLines", tail, "must be greater than or equal to 0"))
    if limit is not None and limit < 1:
        found.append(invalid("limitBytes", limit, "must be greater than 0"))
    if since is not None and since_time:
        found.append(forbidden("", "at most one of `sinceTime` or `sinceSeconds` may be specified"))
    elif since is not None and since < 1:
        found.append(invalid("sinceSeconds", since, "must be greater than 0"))
    return found


def container_named(pod: Object, wanted: str) -> str:
    """validateContainer of pods: the only container when none is named; ApiError 400 when the choice is not clear."""
    name, spec = pod["metadata"]["name"], pod["spec"]
    plain = [c["name"] for c in spec["containers"]]
    init = [c["name"] for c in spec.get("initContainers") or ()]
    if wanted:
        if wanted not in (*plain, *init):
            raise errors.bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    if len(plain) == 1:
        return str(plain[0])
    text = f"a container name must be specified for pod {name}, choose one of: [{' '.join(plain)}]"
    if init:
        text += f" or one of the init containers: [{' '.join(init)}]"
    raise errors.bad_request(text)


# --- eviction, binding, token -----------------------------------------------------------------------------------------


def _eviction(backend: Backend, call: Call) -> Answer:
    options = read_write_options(call.query, "CreateOptions", call.user_agent)
    eviction, _ = media.read_object(
        call.body,
        call.content_type,
        Resource("policy", "v1", "evictions", "Eviction"),
        "Eviction",
        "policy/v1",
        options.validation,
    )
    if eviction["metadata"].get("name", call.info.name) != call.info.name:
        raise errors.bad_request("name in URL does not match name in Eviction object")
    stored = backend.registry.require(call.resource, call.info.namespace, call.info.name)
    given = eviction.get("deleteOptions") or {}
    dry_run = options.dry_run or bool(given.get("dryRun"))
    _spend_disruption_budget(backend, stored.obj, dry_run)
    if not dry_run:
        _mark_evicted(backend, stored.obj)
        stored = backend.registry.require(call.resource, call.info.namespace, call.info.name)
    wanted = deletion.DeleteOptions(
        given.get("gracePeriodSeconds"), given.get("propagationPolicy"), given.get("preconditions") or {}
    )
    backend.registry.delete_stored(stored, wanted, Write(call.resource, call.user, dry_run=dry_run))
    return Answer(dict(SUCCESS), 201)


def _mark_evicted(backend: Backend, pod: Object) -> None:
    """addConditionAndDeletePod: the condition DisruptionTarget says why the pod goes."""
    moment = rfc3339(backend.registry.clock.now())
    condition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
        "lastTransitionTime": moment,
    }

    def change(obj: Object) -> None:
        conditions = obj.setdefault("status", {}).setdefault("conditions", [])
        conditions[:] = [c for c in conditions if c["type"] != "DisruptionTarget"] + [condition]

    meta = pod["metadata"]
    if not meta.get("deletionTimestamp"):
        backend.registry.modify("Pod", meta["namespace"], meta["name"], change, subresource="status")


def _spend_disruption_budget(backend: Backend, pod: Object, dry_run: bool) -> None:
    """EvictionREST.checkAndDecrement; ApiError 429 when the budget allows no disruption."""
    meta, status = pod["metadata"], pod.get("status", {})
    budgets = [
        budget
        for budget in backend.registry.list("PodDisruptionBudget", meta["namespace"])
        if matches_label_selector(budget["spec"].get("selector"), meta.get("labels", {}))
    ]
    if not budgets or status.get("phase") in ("Succeeded", "Failed", "Pending") or meta.get("deletionTimestamp"):
        return
    if len(budgets) > 1:
        text = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        raise errors.ApiError(500, "InternalError", text, {"causes": [{"message": text}]})
    budget = budgets[0]
    counts = budget.get("status", {})
    if not _is_ready(pod):
        always = budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow"
        if always or counts.get("currentHealthy", 0) >= max(counts.get("desiredHealthy", 0), 1):
            return
    if counts.get("disruptionsAllowed", 0) <= 0:
        name, wanted, have = (
            budget["metadata"]["name"],
            counts.get("desiredHealthy", 0),
            counts.get("currentHealthy", 0),
        )
        why = f"The disruption budget {name} needs {wanted} healthy pods and has {have} currently"
        text = "Cannot evict pod as it would violate the pod's disruption budget."
        raise errors.too_many_requests(text, 0, [{"reason": "DisruptionBudget", "message": why}])
    if dry_run:
        return
    moment = rfc3339(backend.registry.clock.now())

    def spend(obj: Object) -> None:
        obj["status"]["disruptionsAllowed"] -= 1
        obj["status"].setdefault("disruptedPods", {})[meta["name"]] = moment

    place = budget["metadata"]
    backend.registry.modify("PodDisruptionBudget", place["namespace"], place["name"], spend, subresource="status")


def _is_ready(pod: Object) -> bool:
    conditions = pod.get("status", {}).get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


AUDIENCE = "https://kubernetes.default.svc"


def _token(backend: Backend, call: Call) -> Answer:
    if call.info.verb != "create":
        raise errors.method_not_allowed()
    given = media.load(call.body, call.content_type) if call.body else {}
    kind, version = given.get("kind") or "TokenRequest", given.get("apiVersion") or "authentication.k8s.io/v1"
    if (kind, version) != ("TokenRequest", "authentication.k8s.io/v1"):
        text = f'{kind} in version "{version}" cannot be handled as a TokenRequest: converting (v1.{kind}) to '
        raise errors.bad_request(f"{text}(authentication.TokenRequest): unknown conversion")
    meta = backend.registry.require(call.resource, call.info.namespace, call.info.name).obj["metadata"]
    asked = given.get("spec") or {}
    seconds = asked.get("expirationSeconds", 3600)
    if found := _token_errors(seconds):
        raise errors.invalid("TokenRequest", "", found, "authentication.k8s.io")
    audiences = asked.get("audiences") or [AUDIENCE]
    now = backend.registry.clock.now()
    body = {
        "kind": "TokenRequest",
        "apiVersion": "authentication.k8s.io/v1",
        "metadata": {
            "name": meta["name"],
            "namespace": meta["namespace"],
            "uid": meta["uid"],
            "creationTimestamp": rfc3339(now),
        },
        "spec": {"audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": None},
        "status": {
            "token": backend.authenticator.issue(meta, audiences, seconds),
            "expirationTimestamp": rfc3339(now + timedelta(seconds=seconds)),
        },
    }
    return Answer(body, 201)


def _token_errors(seconds: int) -> list[FieldError]:
    """authentication validation.ValidateTokenRequest."""
    if seconds < 600:
        return [invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")]
    if seconds > 1 << 32:
        return [invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")]
    return []


_HANDLERS: dict[str, Callable[[Backend, Call], Answer]] = {
    "scale": _scale,
    "log": _log,
    "eviction": _eviction,
    "token": _token,
}
