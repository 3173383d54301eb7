# SPDX-License-Identifier: BSD-2-Clause
"""batch/v1 Job.

Sources: pkg/apis/batch/v1/defaults.go, pkg/apis/batch/validation/validation.go, pkg/registry/batch/job/strategy.go.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from kubesim import field
from kubesim.field import FieldError
from kubesim.kinds import names
from kubesim.kinds.metadata import (
    immutable,
    label_name,
    label_selector,
    not_negative,
    object_meta_update,
    selector_matches,
)
from kubesim.kinds.pod_validation import validate_template
from kubesim.kinds.pod_warnings import name_warnings, template_warnings
from kubesim.kinds.podspec import default_template
from kubesim.kinds.strategy import Context, Object, Strategy

#: The labels of the pods of a job, and which part of the job each holds; the unprefixed ones are the older names.
UID_LABELS = ("batch.kubernetes.io/controller-uid", "controller-uid")
NAME_LABELS = ("batch.kubernetes.io/job-name", "job-name")

MAX_INDEXED_PARALLELISM = 100_000
MAX_FAILED_INDEXES = 100_000
MANY_COMPLETIONS = 100_000
MAX_WITH_MANY_COMPLETIONS = 10_000
MAX_RULES = 20
MAX_EXIT_CODES = 255
MAX_POD_CONDITIONS = 20

_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES = ("False", "True", "Unknown")
#: What is immutable once the job exists, beside completions and template, in the order in which it is checked.
_IMMUTABLE = ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
#: Where the pods of a suspended job go may change (JobSchedulingDirectives); node affinity is treated apart.
_SCHEDULING = ("nodeSelector", "tolerations", "schedulingGates")


class JobStrategy(Strategy):
    kind = "Job"
    generation_of = "spec"
    has_status = True
    delete_default_propagation = "Orphan"

    def __init__(self, *, resources_change: bool = True) -> None:
        """`resources_change`: the pods of a suspended job may get other resources, as in Kubernetes 1.36."""
        self.resources_change = resources_change

    def default(self, obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        default_template(spec.setdefault("template", {}))
        if "completions" not in spec and "parallelism" not in spec:
            spec["completions"] = spec["parallelism"] = 1
        spec.setdefault("parallelism", 1)
        if "backoffLimit" not in spec:
            spec["backoffLimit"] = 2147483647 if "backoffLimitPerIndex" in spec else 6
        spec["completionMode"] = spec.get("completionMode") or "NonIndexed"
        spec.setdefault("suspend", False)
        spec.setdefault("manualSelector", False)
        policy = spec.get("podFailurePolicy")
        for rule in (policy or {}).get("rules") or ():
            for pattern in rule.get("onPodConditions") or ():
                pattern["status"] = pattern.get("status") or "True"
        spec.setdefault("podReplacementPolicy", "Failed" if policy else "TerminatingOrFailed")
        obj.setdefault("status", {})
        labels = spec["template"]["metadata"].get("labels")
        if labels and not obj["metadata"].get("labels"):
            # One map for both, as in Go: the labels that prepare_create adds to the template show on such a job too.
            obj["metadata"]["labels"] = labels

    def prepare_create(self, obj: Object, ctx: Context) -> None:
        super().prepare_create(obj, ctx)
        if not obj["spec"].get("manualSelector"):
            _generate_selector(obj)
        _part_labels(obj)

    def complete(self, obj: Object) -> None:
        # A job without labels gets those of its template, but only after it was validated without them.
        labels = obj["spec"]["template"]["metadata"].get("labels")
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)

    def prepare_update(self, obj: Object, old: Object, ctx: Context) -> None:
        _part_labels(obj)
        super().prepare_update(obj, old, ctx)

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        yield from _generated_selector(obj)
        yield from _spec(obj["spec"])
        yield from _pod_hostname(obj)

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        # The strategy runs ValidateJob and then ValidateJobUpdate, which checks the spec again.
        yield from self.validate(obj)
        yield from object_meta_update(obj["metadata"], old["metadata"], "metadata")
        yield from _spec(obj["spec"])
        yield from _spec_update(obj, old, self.resources_change)

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        spec = obj["spec"]
        texts = name_warnings(obj) if old is None else []
        if spec.get("completionMode") == "Indexed":
            completions, parallelism = spec.get("completions") or 0, spec.get("parallelism") or 0
            if completions > MANY_COMPLETIONS and parallelism > MAX_WITH_MANY_COMPLETIONS:
                texts.append(
                    "spec.completions: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism "
                    "higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of "
                    "indexes fail"
                )
        old_template = old["spec"]["template"] if old else None
        return texts + template_warnings(spec["template"], "spec.template", old_template)


def _generate_selector(job: Object) -> None:
    meta, template = job["metadata"], job["spec"]["template"]
    labels = template["metadata"].setdefault("labels", {})
    for keys, value in ((NAME_LABELS, meta.get("name", "")), (UID_LABELS, meta.get("uid", ""))):
        for key in keys:
            labels.setdefault(key, value)
    selector = job["spec"].setdefault("selector", {}).setdefault("matchLabels", {})
    selector.setdefault(UID_LABELS[0], meta.get("uid", ""))


def _part_labels(job: Object) -> None:
    """End the sharing of one map that default() began."""
    if labels := job["metadata"].get("labels"):
        job["metadata"]["labels"] = dict(labels)


def _generated_selector(job: Object) -> Iterator[FieldError]:
    """validateGeneratedSelector."""
    spec, meta = job["spec"], job["metadata"]
    if spec.get("manualSelector") or not spec.get("selector"):
        return
    if not meta.get("uid"):
        yield field.required("metadata.uid")
    labels = spec["template"]["metadata"].get("labels") or {}
    expected = {key: meta.get("uid", "") for key in UID_LABELS} | {key: meta.get("name", "") for key in NAME_LABELS}
    for key in ("controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"):
        path = f"spec.template.metadata.labels[{key}]"
        if key not in labels:
            yield field.required(path, f"must be '{expected[key]}'")
        elif labels[key] != expected[key]:
            yield field.invalid(path, labels, f"must be '{expected[key]}'")
    if not selector_matches(spec["selector"], expected):
        yield field.invalid("spec.selector", spec["selector"], "`selector` not auto-generated")


def _pod_hostname(job: Object) -> Iterator[FieldError]:
    """The pods of an Indexed job have the hostname <job>-<index>, which must be a label."""
    spec, name = job["spec"], job["metadata"].get("name", "")
    if spec.get("completionMode") == "Indexed" and (spec.get("completions") or 0) > 0:
        hostname = f"{name}-{spec['completions'] - 1}"
        if names.dns_label(hostname):
            text = f"will not able to create pod with invalid DNS label: {hostname}"
            yield field.invalid("metadata.name", name, text)


def _spec(spec: Object) -> Iterator[FieldError]:
    """ValidateJobSpec."""
    yield from _counts(spec)
    yield from _completion_mode(spec)
    if "podFailurePolicy" in spec:
        yield from _pod_failure_policy(spec)
    if "successPolicy" in spec:
        yield from _success_policy(spec)
    yield from _pod_replacement_policy(spec)
    yield from validate_template(spec["template"], "spec.template")
    yield from _restart_policy(spec)
    if selector := spec.get("selector"):
        yield from label_selector(selector, "spec.selector")
    else:
        yield field.required("spec.selector")
    labels = spec["template"]["metadata"].get("labels") or {}
    if not selector_matches(spec.get("selector"), labels):
        yield field.invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`")


def _success_policy(spec: Object) -> Iterator[FieldError]:
    """validateSuccessPolicy, of which only the rules that there must be."""
    policy = spec["successPolicy"]
    if spec.get("completionMode") != "Indexed":
        rules = [
            field.Struct(SucceededIndexes=rule.get("succeededIndexes"), SucceededCount=rule.get("succeededCount"))
            for rule in policy.get("rules") or ()
        ]
        yield field.invalid("spec.successPolicy", field.Struct(Rules=rules), "requires indexed completion mode")
    elif not policy.get("rules"):
        problem = "at least one rules must be specified when the successPolicy is specified"
        yield field.required("spec.successPolicy.rules", problem)


def _counts(spec: Object) -> Iterator[FieldError]:
    for key in (
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ):
        yield from not_negative(spec, key, "spec")
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        yield field.required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")


def _completion_mode(spec: Object) -> Iterator[FieldError]:
    mode = spec.get("completionMode", "NonIndexed")
    if mode not in ("NonIndexed", "Indexed"):
        yield field.not_supported("spec.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "NonIndexed":
        for key in ("backoffLimitPerIndex", "maxFailedIndexes"):
            if key in spec:
                yield field.invalid(f"spec.{key}", spec[key], "requires indexed completion mode")
    if mode == "Indexed":
        yield from _indexed_counts(spec)


def _indexed_counts(spec: Object) -> Iterator[FieldError]:
    completions, parallelism, failures = (
        spec.get("completions"),
        spec.get("parallelism", 0),
        spec.get("maxFailedIndexes"),
    )
    if completions is None:
        yield field.required("spec.completions", "when completion mode is Indexed")
    if parallelism > MAX_INDEXED_PARALLELISM:
        text = f"must be less than or equal to {MAX_INDEXED_PARALLELISM} when completion mode is Indexed"
        yield field.invalid("spec.parallelism", parallelism, text)
    if failures is not None and completions is not None and failures > completions:
        yield field.invalid("spec.maxFailedIndexes", failures, "must be less than or equal to completions")
    if failures is not None and failures > MAX_FAILED_INDEXES:
        yield field.invalid("spec.maxFailedIndexes", failures, f"must be less than or equal to {MAX_FAILED_INDEXES}")
    if (completions or 0) > MANY_COMPLETIONS and "backoffLimitPerIndex" in spec:
        if failures is None:
            text = f"must be specified when completions is above {MANY_COMPLETIONS}"
            yield field.required("spec.maxFailedIndexes", text)
        text = (
            f"must be less than or equal to {MAX_WITH_MANY_COMPLETIONS} when completions are above {MANY_COMPLETIONS}"
        )
        text += " and used with backoff limit per index"
        for key in ("parallelism", "maxFailedIndexes"):
            if spec.get(key, 0) > MAX_WITH_MANY_COMPLETIONS:
                yield field.invalid(f"spec.{key}", spec[key], text)


def _pod_failure_policy(spec: Object) -> Iterator[FieldError]:
    rules, path = spec["podFailurePolicy"].get("rules") or [], "spec.podFailurePolicy.rules"
    if len(rules) > MAX_RULES:
        yield field.too_many(path, len(rules), MAX_RULES)
    pod = spec["template"]["spec"]
    known = {c.get("name") for key in ("containers", "initContainers") for c in pod.get(key) or ()}
    for index, rule in enumerate(rules):
        yield from _failure_rule(spec, rule, f"{path}[{index}]", known)


def _failure_rule(spec: Object, rule: Object, path: str, known: set[Any]) -> Iterator[FieldError]:
    action = rule.get("action")
    if not action:
        yield field.required(f"{path}.action", f"valid values: {_go_strings(_ACTIONS)}")
    elif action == "FailIndex" and "backoffLimitPerIndex" not in spec:
        yield field.invalid(f"{path}.action", action, "requires the backoffLimitPerIndex to be set")
    elif action not in _ACTIONS:
        yield field.not_supported(f"{path}.action", action, _ACTIONS)
    exit_codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
    if exit_codes is not None:
        yield from _exit_codes(exit_codes, f"{path}.onExitCodes", known)
    yield from _pod_conditions(conditions, f"{path}.onPodConditions")
    if exit_codes is not None and conditions:
        text = "specifying both OnExitCodes and OnPodConditions is not supported"
        yield field.invalid_omitting_value(path, text)
    if exit_codes is None and not conditions:
        yield field.invalid_omitting_value(path, "specifying one of OnExitCodes and OnPodConditions is required")


def _exit_codes(rule: Object, path: str, known: set[Any]) -> Iterator[FieldError]:
    operator, values = rule.get("operator"), rule.get("values") or []
    if not operator:
        yield field.required(f"{path}.operator", f"valid values: {_go_strings(('In', 'NotIn'))}")
    elif operator not in ("In", "NotIn"):
        yield field.not_supported(f"{path}.operator", operator, ("In", "NotIn"))
    if (container := rule.get("containerName")) is not None and container not in known:
        text = "must be one of the container or initContainer names in the pod template"
        yield field.invalid(f"{path}.containerName", container, text)
    if not values:
        yield field.invalid(f"{path}.values", values, "at least one value is required")
    elif len(values) > MAX_EXIT_CODES:
        yield field.too_many(f"{path}.values", len(values), MAX_EXIT_CODES)
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            yield field.invalid(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        if value in values[:index]:
            yield field.duplicate(f"{path}.values[{index}]", value)
    if values != sorted(values):
        yield field.invalid(f"{path}.values", values, "must be ordered")


def _pod_conditions(patterns: list[Object], path: str) -> Iterator[FieldError]:
    if len(patterns) > MAX_POD_CONDITIONS:
        yield field.too_many(path, len(patterns), MAX_POD_CONDITIONS)
    for index, pattern in enumerate(patterns):
        yield from label_name(pattern.get("type", ""), f"{path}[{index}].type")
        status = pattern.get("status")
        if not status:
            yield field.required(f"{path}[{index}].status", f"valid values: {_go_strings(_STATUSES)}")
        elif status not in _STATUSES:
            yield field.not_supported(f"{path}[{index}].status", status, _STATUSES)


def _pod_replacement_policy(spec: Object) -> Iterator[FieldError]:
    policy = spec.get("podReplacementPolicy")
    supported = ("Failed",) if "podFailurePolicy" in spec else ("Failed", "TerminatingOrFailed")
    if policy is not None and policy not in supported:
        yield field.not_supported("spec.podReplacementPolicy", policy, supported)


def _restart_policy(spec: Object) -> Iterator[FieldError]:
    policy, path = spec["template"]["spec"].get("restartPolicy", ""), "spec.template.spec.restartPolicy"
    if policy in ("", "Always"):
        yield field.required(path, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield field.not_supported(path, policy, ("OnFailure", "Never"))
    elif "podFailurePolicy" in spec and policy != "Never":
        yield field.invalid(path, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _spec_update(job: Object, old: Object, resources_change: bool) -> Iterator[FieldError]:
    """ValidateJobSpecUpdate, without the spec itself."""
    spec, old_spec = job["spec"], old["spec"]
    yield from _completions_update(spec, old_spec)
    yield from immutable(spec, old_spec, "selector", "spec")
    yield from _template_update(job, old, resources_change)
    for key in _IMMUTABLE:
        yield from immutable(spec, old_spec, key, "spec")


def _completions_update(spec: Object, old: Object) -> Iterator[FieldError]:
    completions = spec.get("completions")
    if spec.get("completionMode") != "Indexed":
        if completions != old.get("completions"):
            yield field.invalid("spec.completions", completions, "field is immutable")
    elif completions is not None and completions != old.get("completions") and completions != spec.get("parallelism"):
        yield field.invalid("spec.completions", completions, "can only be modified in tandem with spec.parallelism")


def _template_update(job: Object, old: Object, resources_change: bool) -> Iterator[FieldError]:
    """validatePodTemplateUpdate: nothing may change, except while the job is suspended and has no pods.

    Before 1.36 only what the scheduler reads, and only of a job that was never resumed.
    """
    template, before = job["spec"]["template"], copy.deepcopy(old["spec"]["template"])
    if not resources_change:
        if old["spec"].get("suspend") and not (old.get("status") or {}).get("startTime"):
            _allow_scheduling_changes(template, before)
            for key in ("labels", "annotations"):
                _copy(template["metadata"], before["metadata"], key)
        if template != before:
            yield field.invalid("spec.template", template, "field is immutable")
    elif _template_is_mutable(old):
        _allow_scheduling_changes(template, before)
        # Labels and annotations are free too; what is left is the pod spec, whose resources may change.
        _allow_resource_changes(template["spec"], before["spec"])
        if template["spec"] != before["spec"]:
            yield field.invalid("spec.template.spec", template["spec"], "field is immutable")
    elif template != before:
        yield field.invalid("spec.template", template, "field is immutable")


def _template_is_mutable(old: Object) -> bool:
    """MutableSchedulingDirectives- and MutablePodResourcesForSuspendedJobs, both on by default in 1.36."""
    status = old.get("status") or {}
    if not old["spec"].get("suspend") or status.get("active"):
        return False
    suspended = any(c["type"] == "Suspended" and c["status"] == "True" for c in status.get("conditions") or ())
    return suspended or not status.get("startTime")


def _allow_scheduling_changes(template: Object, before: Object) -> None:
    for key in _SCHEDULING:
        _copy(template["spec"], before["spec"], key)
    new, old = template["spec"].get("affinity"), before["spec"].get("affinity")
    if new is not None:
        before["spec"].setdefault("affinity", {})
        _copy(new, before["spec"]["affinity"], "nodeAffinity")
    elif old is not None:
        old.pop("nodeAffinity", None)
        if not old:
            del before["spec"]["affinity"]


def _allow_resource_changes(pod: Object, before: Object) -> None:
    for key in ("containers", "initContainers"):
        new, old = pod.get(key) or [], before.get(key) or []
        if len(new) == len(old):
            for container, container_before in zip(new, old, strict=True):
                if container.get("name") == container_before.get("name"):
                    _copy(container, container_before, "resources")


def _copy(source: Object, target: Object, key: str) -> None:
    if key in source:
        target[key] = source[key]
    else:
        target.pop(key, None)


def _go_strings(values: tuple[str, ...]) -> str:
    """fmt's %q of a slice of strings."""
    return "[" + " ".join(field.go_quote(value) for value in values) + "]"
