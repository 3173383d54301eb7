# SPDX-License-Identifier: BSD-2-Clause
"""What is refused, with which words, beyond what the recordings pin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from writes import Object, Writes, changed, pod_spec, template

TABLES: dict[str, Any] = yaml.safe_load(Path(__file__).with_name("validation.yaml").read_text())
ONE_TIME = template(restartPolicy="Never")
INDEXED = {"completionMode": "Indexed", "completions": 2}
SELECTED = {"selector": {"matchLabels": {"app": "x"}}, "template": template()}
#: What a spec is laid over; null takes a field away.
BASES: dict[str, Object] = {
    "Deployment": SELECTED,
    "HorizontalPodAutoscaler": {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"},
        "maxReplicas": 3,
    },
    "Job": {"template": ONE_TIME},
    "PersistentVolumeClaim": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    "Pod": pod_spec(),
    "Service": {"ports": [{"port": 80}]},
    "StatefulSet": SELECTED,
}
IMMUTABLE = "field is immutable"


def cases(table: str) -> list[Any]:
    def name(case: Object, number: int) -> str:
        return case.get("about") or f"{case['kind']} {number}: {case.get('path') or ', '.join(case.get('spec') or ())}"

    return [pytest.param(case, id=name(case, number)) for number, case in enumerate(TABLES[table])]


def refusal(case: Object) -> list[str] | str:
    def whole(text: str) -> str:
        for short, long in TABLES["words"].items():
            text = text.replace(f"<{short}>", long)
        return text

    if "message" in case:
        return whole(case["message"])
    return [whole(text) for text in ([case["cause"]] if "cause" in case else case["causes"])]


def spec_of(kind: str, spec: Object | None) -> Object:
    return {key: value for key, value in (BASES.get(kind, {}) | (spec or {})).items() if value is not None}


@pytest.fixture
def writes() -> Writes:
    return Writes()


@pytest.mark.parametrize("case", cases("pods"))
def test_pod_is_refused_or_taken(writes: Writes, case: Object) -> None:
    assert writes.why_not_create("Pod", spec=pod_spec(**case["spec"])) == refusal(case)


@pytest.mark.parametrize("case", cases("jobs"))
def test_job_is_refused(writes: Writes, case: Object) -> None:
    assert writes.why_not_create("Job", spec=spec_of("Job", case["spec"])) == refusal(case)


@pytest.mark.parametrize("case", cases("specs"))
def test_spec_is_refused(writes: Writes, case: Object) -> None:
    assert writes.why_not_create(case["kind"], spec=spec_of(case["kind"], case["spec"])) == refusal(case)


@pytest.mark.parametrize("case", cases("objects"))
def test_object_is_refused(writes: Writes, case: Object) -> None:
    assert writes.why_not_create(case["kind"], case["body"]) == refusal(case)


@pytest.mark.parametrize("case", cases("changes"))
def test_change_is_refused_or_taken(writes: Writes, case: Object) -> None:
    made = writes.create(case["kind"], spec=spec_of(case["kind"], case.get("spec")))
    assert writes.why_not_change(case["kind"], changed(made, case["path"], case["value"])) == refusal(case)


def test_all_that_is_wrong_is_said_at_once(writes: Writes) -> None:
    spec = pod_spec(main={"image": "", "ports": [{"containerPort": 0}]}, restartPolicy="x", dnsPolicy="y")
    assert [cause.partition(":")[0] for cause in writes.why_not_create("Pod", spec=spec)] == [
        "spec.containers[0].image",
        "spec.containers[0].ports[0].containerPort",
        "spec.restartPolicy",
        "spec.dnsPolicy",
    ]


@pytest.mark.parametrize(
    ("kind", "body", "why"),
    [
        ("ConfigMap", {"data": {"a": "b" * 2**20, "c": "d"}}, ": Too long: may not be more than 1048576 bytes"),
        ("Secret", {"stringData": {"a": "b" * 2**20, "c": "d"}}, "data: Too long: may not be more than 1048576 bytes"),
        (
            "ConfigMap",
            {"metadata": {"annotations": {"a": "b" * 2**18}}},
            "metadata.annotations: Too long: may not be more than 262144 bytes",
        ),
        (
            "ConfigMap",
            {"metadata": {"name": "a" * 254}},
            f'metadata.name: Invalid value: "{"a" * 254}": must be no more than 253 characters',
        ),
    ],
    ids=["config map", "secret", "annotations", "name"],
)
def test_what_is_too_long_is_refused(writes: Writes, kind: str, body: Object, why: str) -> None:
    assert writes.why_not_create(kind, body) == [why]


@pytest.mark.parametrize(
    ("suspended", "path", "value"),
    [
        (False, "spec/parallelism", 4),
        (False, "spec/activeDeadlineSeconds", 4),
        (False, "spec/backoffLimit", 4),
        (False, "spec/ttlSecondsAfterFinished", 4),
        (False, "spec/suspend", True),
        (True, "spec/template/spec/nodeSelector", {"a": "b"}),
        (True, "spec/template/spec/tolerations", [{"key": "a", "operator": "Exists"}]),
        (True, "spec/template/spec/schedulingGates", [{"name": "a"}]),
        (True, "spec/template/metadata/annotations", {"a": "b"}),
        (True, "spec/template/spec/containers/0/resources", {"limits": {"cpu": "1"}}),
    ],
)
def test_job_may_change_this(writes: Writes, suspended: bool, path: str, value: Any) -> None:
    job = writes.create("Job", spec={"template": ONE_TIME, "suspend": suspended})
    assert writes.why_not_change("Job", changed(job, path, value)) == []


@pytest.mark.parametrize(
    ("suspended", "path", "value", "where"),
    [
        (False, "spec/completions", 4, "spec.completions"),
        (False, "spec/completionMode", "Indexed", "spec.completionMode"),
        (False, "spec/template/spec/nodeSelector", {"a": "b"}, "spec.template"),
        (False, "spec/template/metadata/annotations", {"a": "b"}, "spec.template"),
        (True, "spec/template/spec/containers/0/image", "busybox:2", "spec.template.spec"),
    ],
)
def test_job_may_not_change_this(writes: Writes, suspended: bool, path: str, value: Any, where: str) -> None:
    job = writes.create("Job", spec={"template": ONE_TIME, "completions": 1, "suspend": suspended})
    (cause,) = writes.why_not_change("Job", changed(job, path, value))
    assert cause.startswith(f"{where}: Invalid value: ")
    assert cause.endswith(f": {IMMUTABLE}")


def test_indexed_job_grows_together_with_its_parallelism(writes: Writes) -> None:
    job = writes.create("Job", spec={"template": ONE_TIME, "parallelism": 2} | INDEXED)
    alone = changed(job, "spec/completions", 4)
    assert writes.why_not_change("Job", alone) == [
        "spec.completions: Invalid value: 4: can only be modified in tandem with spec.parallelism"
    ]
    assert writes.why_not_change("Job", changed(alone, "spec/parallelism", 4)) == []


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
def test_immutable_data_stays(writes: Writes, kind: str) -> None:
    made = writes.create(kind, {"data": {"a": "YQ=="}, "immutable": True})
    why = f"Forbidden: {IMMUTABLE} when `immutable` is set"
    assert writes.why_not_change(kind, changed(made, "data/a", "Yg==")) == [f"data: {why}"]
    assert writes.why_not_change(kind, changed(made, "immutable", None)) == [f"immutable: {why}"]
    assert writes.why_not_change(kind, changed(made, "metadata/labels", {"a": "b"})) == []


def test_claim_stays_as_it_is(writes: Writes) -> None:
    claim = writes.create("PersistentVolumeClaim", spec=BASES["PersistentVolumeClaim"])
    (cause,) = writes.why_not_change("PersistentVolumeClaim", changed(claim, "spec/accessModes", ["ReadWriteMany"]))
    rule = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
    assert cause.startswith(f"spec: Forbidden: {rule}\n")
