# SPDX-License-Identifier: BSD-2-Clause
"""RuntimeClass: the overhead of a pod's runtime, and the nodes that have it.

Source: plugin/pkg/admission/runtimeclass/admission.go; pkg/util/tolerations/tolerations.go (MergeTolerations).
"""

from __future__ import annotations

from kubesim.admission.request import AdmissionRequest, Object


def admit(request: AdmissionRequest) -> None:
    if request.obj is None or not request.concerns("Pod", "CREATE"):
        return
    spec = request.obj["spec"]
    if chosen := _class_of(spec, request):
        _set_overhead(spec, chosen, request)
        _set_scheduling(spec, chosen.get("scheduling"), request)


def validate(request: AdmissionRequest) -> None:
    if request.obj is None or not request.concerns("Pod", "CREATE"):
        return
    spec = request.obj["spec"]
    if spec.get("overhead") and not _overhead_of(_class_of(spec, request)):
        raise request.forbidden("pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead")


def _class_of(spec: Object, request: AdmissionRequest) -> Object | None:
    name = spec.get("runtimeClassName")
    if not name:
        return None
    chosen: Object | None = request.registry.get("RuntimeClass", None, name)
    if chosen is None:
        raise request.forbidden(f'pod rejected: RuntimeClass "{name}" not found')
    return chosen


def _overhead_of(chosen: Object | None) -> Object:
    return ((chosen or {}).get("overhead") or {}).get("podFixed") or {}


def _set_overhead(spec: Object, chosen: Object, request: AdmissionRequest) -> None:
    overhead = _overhead_of(chosen)
    if not overhead:
        return
    if spec.get("overhead") and spec["overhead"] != overhead:
        raise request.forbidden("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead")
    spec["overhead"] = dict(overhead)


def _set_scheduling(spec: Object, scheduling: Object | None, request: AdmissionRequest) -> None:
    if not scheduling:
        return
    selector = dict(spec.get("nodeSelector") or {})
    for key, value in (scheduling.get("nodeSelector") or {}).items():
        if selector.setdefault(key, value) != value:
            raise request.forbidden(
                f"conflict: runtimeClass.scheduling.nodeSelector[{key}] = {value}; "
                f"pod.spec.nodeSelector[{key}] = {selector[key]}"
            )
    if selector:
        spec["nodeSelector"] = selector
    if scheduling.get("tolerations"):
        spec["tolerations"] = merged_tolerations([*(spec.get("tolerations") or ()), *scheduling["tolerations"]])


def merged_tolerations(given: list[Object]) -> list[Object]:
    """Without those that another one includes; of two that are the same, the first."""
    merged: list[Object] = []
    for index, one in enumerate(given):
        if any(_includes(other, one) for other in merged):
            continue
        if any(other != one and _includes(other, one) for other in given[index + 1 :]):
            continue
        merged.append(one)
    return merged


def _includes(wide: Object, one: Object) -> bool:
    """Whether all that ``one`` tolerates, ``wide`` tolerates (isSuperset)."""
    if wide == one:
        return True
    exists = wide.get("operator") == "Exists"
    if one.get("key") != wide.get("key") and (wide.get("key") or not exists):
        return False
    if wide.get("effect") and one.get("effect") != wide["effect"]:
        return False
    if wide.get("effect") == "NoExecute" and "tolerationSeconds" in wide:
        seconds = one.get("tolerationSeconds")
        if seconds is None or seconds > wide["tolerationSeconds"]:
            return False
    return exists or (one.get("operator") == "Equal" and one.get("value") == wide.get("value"))
