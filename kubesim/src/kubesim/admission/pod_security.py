# SPDX-License-Identifier: BSD-2-Clause
"""PodSecurity: the levels baseline and restricted, as the labels of a namespace ask for them.

Sources: staging/src/k8s.io/pod-security-admission/{api/helpers.go,admission/admission.go}; the checks are in
pod_security_checks.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from kubesim import errors, field
from kubesim.admission.pod_security_checks import BASELINE, PRIVILEGED, RESTRICTED, Violation, evaluate_pod_security
from kubesim.admission.request import AdmissionRequest, Object
from kubesim.kinds.podspec import CONTAINER_LISTS

PREFIX = "pod-security.kubernetes.io/"
MODES = ("enforce", "audit", "warn")
LEVELS = (PRIVILEGED, BASELINE, RESTRICTED)
#: Where the pod template lies in the kinds that make pods.
_TEMPLATES = {
    "ReplicaSet": ("spec", "template"),
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "Job": ("spec", "template"),
}
_IGNORED_SUBRESOURCES = ("exec", "attach", "binding", "eviction", "log", "portforward", "proxy", "status")


@dataclass(frozen=True)
class Policy:
    level: str = PRIVILEGED
    version: str = "latest"

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"


def validate(request: AdmissionRequest) -> None:
    kind = request.resource.kind
    if request.operation == "DELETE" or request.obj is None:
        return
    if kind == "Namespace":
        if not request.subresource:
            _validate_namespace(request, request.obj)
    elif kind == "Pod":
        if request.subresource not in _IGNORED_SUBRESOURCES and _is_significant(request):
            _validate_pod(request, request.obj["spec"])
    elif kind in _TEMPLATES and not request.subresource:
        template = request.obj
        for key in _TEMPLATES[kind]:
            template = template.get(key) or {}
        _warn(request, template.get("spec") or {})


def _validate_namespace(request: AdmissionRequest, namespace: Object) -> None:
    labels = namespace["metadata"].get("labels") or {}
    wrong = [error for mode in MODES for error in _label_errors(labels, mode)]
    old_labels = ((request.old or {}).get("metadata") or {}).get("labels") or {}
    unchanged = all(
        labels.get(PREFIX + m + s) == old_labels.get(PREFIX + m + s) for m in MODES for s in ("", "-version")
    )
    if wrong and not (request.operation == "UPDATE" and unchanged):
        raise errors.invalid("Namespace", namespace["metadata"].get("name", ""), wrong)
    if request.operation == "UPDATE" and not wrong:
        _warn_of_existing_pods(request, _policies(labels)["enforce"], _policies(old_labels)["enforce"])


def _label_errors(labels: dict[str, str], mode: str) -> list[field.FieldError]:
    level, version, found = labels.get(PREFIX + mode), labels.get(f"{PREFIX}{mode}-version"), []
    if level is not None and level not in LEVELS:
        path = f"metadata.labels[{PREFIX}{mode}]"
        found.append(field.invalid(path, level, f"must be one of {', '.join(LEVELS)}"))
    if version is not None and not _is_version(version):
        path = f"metadata.labels[{PREFIX}{mode}-version]"
        found.append(field.invalid(path, version, 'must be "latest" or "v1.x"'))
    return found


def _is_version(text: str) -> bool:
    return text == "latest" or bool(re.fullmatch(r"v1\.(0|[1-9][0-9]*)", text))


def _policies(labels: dict[str, str]) -> dict[str, Policy]:
    """PolicyToEvaluate: a namespace that enforces a level warns of the same one by default."""
    policies = {}
    for mode in MODES:
        level, version = labels.get(PREFIX + mode, PRIVILEGED), labels.get(f"{PREFIX}{mode}-version", "latest")
        # A level that cannot be read counts as the strictest (it cannot be set, but may have been there before).
        policies[mode] = Policy(level if level in LEVELS else RESTRICTED, version if _is_version(version) else "latest")
    enforce = policies["enforce"]
    if PREFIX + "warn" not in labels and LEVELS.index(enforce.level) > LEVELS.index(policies["warn"].level):
        policies["warn"] = enforce
    return policies


def _warn_of_existing_pods(request: AdmissionRequest, new: Policy, old: Policy) -> None:
    if new == old or new.level == PRIVILEGED or LEVELS.index(new.level) < LEVELS.index(old.level):
        return
    broken: dict[str, list[str]] = {}
    for pod in request.registry.list("Pod", request.name):
        if violations := evaluate_pod_security(new.level, pod["spec"], new.version):
            broken.setdefault(", ".join(violation.reason for violation in violations), []).append(
                pod["metadata"]["name"]
            )
    if broken:
        text = f'existing pods in namespace "{request.name}" violate the new PodSecurity enforce level "{new}"'
        request.warnings.append(text)
        request.warnings += sorted(f"{_first_of(names)}: {reasons}" for reasons, names in broken.items())


def _first_of(names: list[str]) -> str:
    others = len(names) - 1
    if not others:
        return names[0]
    return f"{min(names)} (and {others} other pod{'s' if others > 1 else ''})"


def _validate_pod(request: AdmissionRequest, spec: Object) -> None:
    enforce = _policies(_namespace_labels(request))["enforce"]
    if violations := evaluate_pod_security(enforce.level, spec, enforce.version):
        raise request.forbidden(f'violates PodSecurity "{enforce}": {_listed(violations)}')
    _warn(request, spec)


def _warn(request: AdmissionRequest, spec: Object) -> None:
    warn = _policies(_namespace_labels(request))["warn"]
    if violations := evaluate_pod_security(warn.level, spec, warn.version):
        request.warnings.append(f'would violate PodSecurity "{warn}": {_listed(violations)}')


def _namespace_labels(request: AdmissionRequest) -> dict[str, str]:
    namespace = request.registry.get("Namespace", None, request.namespace) or {"metadata": {}}
    return namespace["metadata"].get("labels") or {}


def _is_significant(request: AdmissionRequest) -> bool:
    """isSignificantPodUpdate: of what may change in a pod, only images matter here."""
    if request.operation != "UPDATE" or request.obj is None or request.old is None:
        return True
    return _images(request.obj["spec"]) != _images(request.old["spec"])


def _images(spec: Object) -> list[list[str]]:
    return [[container.get("image", "") for container in spec.get(key) or ()] for key in CONTAINER_LISTS]


def _listed(violations: list[Violation]) -> str:
    return ", ".join(f"{v.reason} ({v.detail})" if v.detail else v.reason for v in violations)
