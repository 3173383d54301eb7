# SPDX-License-Identifier: BSD-2-Clause
"""ResourceQuota: refuse what a quota has no room for, and charge what it has.

Source: staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go (CheckRequest).
"""

from __future__ import annotations

from collections.abc import Iterable

from kubesim.admission.quota_evaluator import matches, matching_resources, missing, usage
from kubesim.admission.request import AdmissionRequest, Object
from kubesim.kinds.pod_resources import Amounts
from kubesim.quantity import ZERO, format_list, parse_list

#: Never charged: pkg/quota/v1/install (DefaultIgnoredResources), and what is not stored.
_IGNORED = ("Event", "Binding", "LocalSubjectAccessReview")
#: Kinds whose changes are charged too, not only their creation.
_CHARGED_ON_UPDATE = ("Service", "PersistentVolumeClaim", "ResourceClaim")


def validate(request: AdmissionRequest) -> None:
    if not _is_charged(request):
        return
    kind, obj = request.resource.kind, request.obj or {}
    registry = request.registry
    quotas = [one for one in registry.list("ResourceQuota", request.namespace) if matches(one, kind, obj, registry)]
    charges: list[tuple[Object, Amounts]] = []
    for quota in quotas:
        _require_named_and_known(request, quota)
    for quota in quotas:
        charge = _charge(request, quota)
        if charge:
            _require_room(request, quota, charge)
            charges.append((quota, charge))
    if not request.dry_run:
        for quota, charge in charges:
            _book(request, quota, charge)


def _is_charged(request: AdmissionRequest) -> bool:
    kind, update = request.resource.kind, request.operation == "UPDATE"
    if not request.namespace or request.obj is None or kind in _IGNORED:
        return False
    if update:
        resize = kind == "Pod" and request.subresource == "resize"
        return resize or (kind in _CHARGED_ON_UPDATE and not request.subresource)
    return request.operation == "CREATE" and not request.subresource


def _require_named_and_known(request: AdmissionRequest, quota: Object) -> None:
    name, status = quota["metadata"]["name"], quota.get("status") or {}
    about = matching_resources(request.resource.kind, status.get("hard") or {}, request.registry)
    if why := missing(request.resource.kind, request.obj or {}, about):
        raise request.forbidden(f"failed quota: {name}: {why}")
    if not about <= set(status.get("used") or {}):
        raise request.forbidden(f"status unknown for quota: {name}, resources: {','.join(sorted(about))}")


def _charge(request: AdmissionRequest, quota: Object) -> Amounts:
    """What the request adds to what the quota counts; zeros left out."""
    kind, registry = request.resource.kind, request.registry
    now = registry.clock.now()
    used = usage(kind, request.obj or {}, now, registry)
    if request.operation == "UPDATE" and request.old is not None and matches(quota, kind, request.old, registry):
        before = usage(kind, request.old, now, registry)
        used = {name: max(amount - before.get(name, ZERO), ZERO) for name, amount in used.items()}
    hard = (quota.get("status") or {}).get("hard") or {}
    return {name: amount for name, amount in used.items() if amount and name in hard}


def _require_room(request: AdmissionRequest, quota: Object, charge: Amounts) -> None:
    hard, used = (parse_list(quota["status"].get(key)) for key in ("hard", "used"))
    exceeded = {name for name, amount in charge.items() if used[name] + amount > hard[name]}
    if exceeded:
        raise request.forbidden(
            f"exceeded quota: {quota['metadata']['name']}, requested: {_listed(charge, exceeded)}, "
            f"used: {_listed(used, exceeded)}, limited: {_listed(hard, exceeded)}"
        )


def _book(request: AdmissionRequest, quota: Object, charge: Amounts) -> None:
    meta = quota["metadata"]

    def add(current: Object) -> None:
        used = parse_list(current["status"]["used"])
        current["status"]["used"] = format_list(used | {name: used[name] + amount for name, amount in charge.items()})

    request.registry.modify("ResourceQuota", meta["namespace"], meta["name"], add, subresource="status")


def _listed(amounts: Amounts, names: Iterable[str]) -> str:
    return ",".join(f"{name}={amounts[name]}" for name in sorted(names))
