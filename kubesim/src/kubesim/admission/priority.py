# SPDX-License-Identifier: BSD-2-Clause
"""Priority: what a PriorityClass puts into pods, and that there is one global default at most.

Source: plugin/pkg/admission/priority/admission.go.
"""

from __future__ import annotations

from kubesim.admission.request import AdmissionRequest, Object

DEFAULT_POLICY = "PreemptLowerPriority"
_COMPUTED = "must not be provided in pod spec; priority admission controller computed"


def admit(request: AdmissionRequest) -> None:
    if request.obj is None or not request.concerns("Pod", "CREATE", "UPDATE"):
        return
    spec = request.obj["spec"]
    if request.operation == "UPDATE":
        before = (request.old or {})["spec"]
        for key in ("priority", "preemptionPolicy"):
            if key not in spec and key in before:
                spec[key] = before[key]
        return
    name, value, policy = _class_of(spec, request)
    if name:
        spec["priorityClassName"] = name
    if spec.get("priority", value) != value:
        given = spec["priority"]
        raise request.forbidden(
            f"the integer value of priority ({given}) {_COMPUTED} {value} from the given PriorityClass name"
        )
    if spec.get("preemptionPolicy", policy) != policy:
        given = spec["preemptionPolicy"]
        text = f"the string value of PreemptionPolicy ({given}) {_COMPUTED} {policy} from the given PriorityClass name"
        raise request.forbidden(text)
    spec["priority"], spec["preemptionPolicy"] = value, policy


def validate(request: AdmissionRequest) -> None:
    if request.obj is None or not request.concerns("PriorityClass", "CREATE", "UPDATE"):
        return
    default = _global_default(request)
    if request.obj.get("globalDefault") and default is not None:
        name = default["metadata"]["name"]
        if request.operation == "CREATE" or name != request.name:
            raise request.forbidden(f"PriorityClass {name} is already marked as default. Only one default can exist")


def _class_of(spec: Object, request: AdmissionRequest) -> tuple[str, int, str]:
    """(name, value, preemption policy) of the class a new pod gets."""
    if name := spec.get("priorityClassName"):
        chosen = request.registry.get("PriorityClass", None, name)
        if chosen is None:
            raise request.forbidden(f"no PriorityClass with name {name} was found")
    else:
        chosen = _global_default(request)
    if chosen is None:
        return "", 0, DEFAULT_POLICY
    return chosen["metadata"]["name"], chosen.get("value", 0), chosen.get("preemptionPolicy", DEFAULT_POLICY)


def _global_default(request: AdmissionRequest) -> Object | None:
    """Were there several (a race in a real cluster), the lowest would count."""
    defaults = [one for one in request.registry.list("PriorityClass") if one.get("globalDefault")]
    return min(defaults, key=lambda one: one.get("value", 0), default=None)
