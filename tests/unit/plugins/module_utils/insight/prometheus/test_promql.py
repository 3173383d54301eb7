# SPDX-License-Identifier: BSD-2-Clause
"""The expressions, as Prometheus itself reads and answers them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.catalog import built_in_catalog
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.alerts import rule_groups
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.label_matchers import promql_string
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.promql import (
    EVERYTHING,
    JOB,
    JOB_UTILIZATION,
    MEASURES,
    POD,
    POD_INFO,
    PodSelection,
    Queries,
    Source,
    ambiguous_pods,
    plain_queries,
    reserved_metrics,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.recording import recording_rules
from promtool import check, rules_file

JOB_LABELS = 'label_runwhere_ai_job_type="training",label_runwhere_ai_pool="a100",label_runwhere_ai_priority="high"'
ODD = PodSelection(namespace='we"ird\\', job="a\nb", pods="x.*")
SELECTIONS = [EVERYTHING, PodSelection("team", "job-a"), PodSelection("team", pods="job-a-.*"), ODD]


def queries(source: Source = Source.POD_LABELS, *names: str, **profiles: Mapping[str, Any]) -> Queries:
    return plain_queries(built_in_catalog().with_profiles(profiles), source, names)


def state(
    pod: str, *, resources: Mapping[str, int], job: str, node: str = "n1", phase: str = "Running"
) -> dict[str, str]:
    """What kube-state-metrics tells of a pod of a job in the namespace team, for six minutes or more."""
    of_pod = f'namespace="team",pod="{pod}"'
    return {
        f'kube_pod_labels{{{of_pod},label_app="{job}",{JOB_LABELS}}}': "1x200",
        f'kube_pod_status_phase{{{of_pod},phase="{phase}"}}': "1x200",
        f'kube_pod_status_phase{{{of_pod},phase="Failed"}}': "0x200",
        **{
            f'kube_pod_container_resource_requests{{{of_pod},container="main",node="{node}",resource="{name}"}}': (
                f"{amount}x200"
            )
            for name, amount in resources.items()
        },
    }


# How one series of an exporter looks in both worlds: its own labels for a workload, and for a free device.
def scraped(metric: str, honor: bool, namespace: str = "namespace", pod: str = "pod", **labels: str) -> str:
    """A series of the pod train-0, as Prometheus stores it with and without honorLabels."""
    target = {"namespace": "gpu-operator", "pod": "exporter-1", "instance": "10.0.0.1:9400"}
    own = {namespace: "team", pod: "train-0", "container": "main"}
    kept = (
        {**target, **own} if honor else {**{f"exported_{k}" if k in target else k: v for k, v in own.items()}, **target}
    )
    return series(metric, {**kept, **labels})


def series(metric: str, labels: Mapping[str, str]) -> str:
    return f"{metric}{{{','.join(f'{key}={promql_string(value)}' for key, value in labels.items())}}}"


def answer(expression: str, *found: tuple[Mapping[str, str], float], at: str = "5m") -> dict[str, Any]:
    return {
        "expr": expression,
        "eval_time": at,
        "exp_samples": [{"labels": series("", labels), "value": value} for labels, value in found],
    }


def rounded(expression: str, *found: tuple[Mapping[str, str], float], at: str = "5m") -> dict[str, Any]:
    """The answer in millionths: promtool compares floating-point numbers exactly."""
    millionths = [(labels, float(round(value * 1e6))) for labels, value in found]
    return answer(f"round(({expression})*1e6)", *millionths, at=at)


def test_promtool_accepts_every_expression(tmp_path: Path) -> None:
    rules = [*recording_rules(queries())]
    for source in Source:
        for select in SELECTIONS:
            rules += [
                {"record": f"test:{source.name}{number}:x", "expr": expression}
                for number, expression in enumerate(every_expression(queries(source), select))
            ]
    assert len(rules) > 500
    rules_file(tmp_path / "rules.yml", rules)


def every_expression(asked: Queries, select: PodSelection) -> list[str]:
    seconds = 7200
    of_measures = [
        expression
        for name in MEASURES
        for expression in (
            asked.measured(name, select),
            asked.aggregated(name, JOB, select),
            asked.aggregated(name, POD, select),
            asked.peak(name, seconds),
            asked.of_devices(name),
        )
    ]
    return [
        *of_measures,
        asked.pod_info(select),
        asked.allocated(select),
        asked.gpu_hours(seconds, select=select),
        asked.idle_hours(seconds, below=0.05),
        asked.measured_hours(seconds, select=select),
        asked.energy_kwh(seconds),
        asked.queue_wait(select),
        asked.fragmentation(),
        asked.network("receive", JOB, select),
        asked.pods("kube_pod_start_time", select),
        asked.errors(),
        asked.error_counts(),
        asked.unhealthy(),
        asked.quota_used(),
        asked.lost_nodes(),
        asked.allocatable(),
        asked.free(),
    ]


VENDORS: dict[str, tuple[dict[str, str], dict[str, str], dict[str, str]]] = {
    # metric -> value, labels of the device, what it is called in the answer
    "nvidia": ({"DCGM_FI_DEV_GPU_UTIL": "40"}, {"UUID": "GPU-1", "gpu": "0"}, {"UUID": "GPU-1"}),
    "nvidia with profiling": (
        {"DCGM_FI_PROF_GR_ENGINE_ACTIVE": "0.4", "DCGM_FI_DEV_GPU_UTIL": "90"},
        {"UUID": "GPU-1"},
        {"UUID": "GPU-1"},
    ),
    "nvidia MIG": (
        {"DCGM_FI_PROF_GR_ENGINE_ACTIVE": "0.4"},
        {"UUID": "GPU-1", "GPU_I_ID": "7", "GPU_I_PROFILE": "1g.10gb"},
        {"UUID": "GPU-1", "GPU_I_ID": "7"},
    ),
    "amd": ({"gpu_gfx_activity": "40"}, {"gpu_id": "3", "hostname": "n1"}, {"UUID": "n1/3"}),
    "ascend": ({"npu_chip_info_utilization": "40"}, {"id": "3", "vdie_id": "D-1"}, {"UUID": "D-1"}),
    "gaudi": ({"habanalabs_utilization": "40"}, {"UUID": "G-1"}, {"UUID": "G-1"}),
    "hami": ({"hami_container_device_utilization_ratio": "40"}, {"device_uuid": "GPU-1"}, {"UUID": "GPU-1"}),
    "hami before 2.9": ({"Device_utilization_desc_of_container": "40"}, {"deviceuuid": "GPU-1"}, {"UUID": "GPU-1"}),
}
OTHER_LABELS = {
    "ascend": {"pod": "pod_name"},
    "hami before 2.9": {"namespace": "podnamespace", "pod": "podname"},
}


@pytest.mark.parametrize("honor", [True, False], ids=["honorLabels", "without honorLabels"])
@pytest.mark.parametrize("vendor", VENDORS)
def test_the_utilization_of_a_job_is_found(tmp_path: Path, vendor: str, honor: bool) -> None:
    metrics, labels, expected = VENDORS[vendor]
    given = {
        scraped(metric, honor, **OTHER_LABELS.get(vendor, {}), **labels): f"{value}x200"
        for metric, value in metrics.items()
    }
    # A free device; with honorLabels it has the exporter's own pod.
    free = {"UUID": "free", "namespace": "gpu-operator", "pod": "exporter-1"}
    given |= {series(metric, free): "99x200" for metric in metrics}
    given |= state("train-0", resources={"nvidia_com_gpu": 1}, job="train")
    pod = {"namespace": "team", "pod": "train-0"}
    job = {"namespace": "team", "job_name": "train", "pool": "a100"}
    plain, recorded, named = queries(), queries(Source.RULES), queries(Source.POD_NAMES)
    name = {"__name__": MEASURES["utilization"].record}
    only_train = PodSelection("team", pods="train-.*")
    check(
        tmp_path,
        recording_rules(queries()),
        given,
        promql_expr_test=[
            answer(plain.measured("utilization"), ({**job, **pod, **expected}, 0.4)),
            answer(plain.measured("utilization", PodSelection("team", "train")), ({**job, **pod, **expected}, 0.4)),
            answer(plain.measured("utilization", PodSelection("team", "other"))),
            answer(recorded.measured("utilization"), ({**name, **job, **pod, **expected}, 0.4)),
            answer(
                JOB_UTILIZATION,
                ({"__name__": "namespace_job:runwhere_gpu_utilization:avg", **job}, 0.4),
            ),
            answer(named.measured("utilization", only_train), ({**pod, **expected}, 0.4)),
            answer(named.measured("utilization", PodSelection("team", pods="other-.*"))),
            answer(named.measured("utilization", PodSelection("other", pods="train-.*"))),
        ],
    )


def test_a_vendor_without_pods_in_its_metrics_is_joined_with_what_owns_its_devices(tmp_path: Path) -> None:
    given = {
        'mlu_utilization{uuid="M-1"}': "40x200",
        'mlu_utilization{uuid="M-2"}': "99x200",
        'mlu_container{uuid="M-1",exported_namespace="team",exported_pod="train-0",pod="exporter-1"}': "1x200",
        'mlu_container{uuid="M-1",exported_namespace="other",exported_pod="train-0",pod="exporter-1"}': "1x200",
        **state("train-0", resources={"cambricon_com_mlu": 1}, job="train"),
    }
    pod = {"namespace": "team", "pod": "train-0", "UUID": "M-1"}
    expected = {**pod, "job_name": "train", "pool": "a100"}
    named = queries(Source.POD_NAMES).measured("utilization", PodSelection("team", pods="train-.*"))
    cases = [answer(queries().measured("utilization"), (expected, 0.4)), answer(named, (pod, 0.4))]
    check(tmp_path, [], given, promql_expr_test=cases)


def test_what_an_administrator_says_of_an_exporter_counts(tmp_path: Path) -> None:
    """A prefix of AMD's exporter, and a vendor of one's own."""
    own = {
        "accelerator": {"name": "own"},
        "noun": "chips",
        "singular": "chip",
        "resource": "example.com/chip",
        "metrics": {"utilization": [{"name": "chip_busy", "unit": "ratio"}], "labels": {"device": ["serial"]}},
    }
    asked = queries(Source.POD_LABELS, amd={"metrics": {"prefix": "amd_"}}, own=own)
    given = {
        scraped("amd_gpu_gfx_activity", True, gpu_id="0", hostname="n1"): "40x200",
        scraped("chip_busy", False, serial="C-1"): "0.2x200",
        **state("train-0", resources={"example_com_chip": 3}, job="train"),
    }
    pod = {"namespace": "team", "pod": "train-0", "job_name": "train", "pool": "a100"}
    check(
        tmp_path,
        [],
        given,
        promql_expr_test=[
            answer(asked.measured("utilization"), ({**pod, "UUID": "n1/0"}, 0.4), ({**pod, "UUID": "C-1"}, 0.2)),
            answer(asked.allocated(), ({**pod, "node": "n1", "resource": "example_com_chip"}, 3)),
        ],
    )


def test_a_pod_on_a_shared_device_has_what_hami_measures_of_it(tmp_path: Path) -> None:
    given = {
        scraped("DCGM_FI_DEV_GPU_UTIL", True, UUID="GPU-1"): "90x200",
        scraped("hami_container_device_utilization_ratio", True, device_uuid="GPU-1"): "40x200",
        scraped("DCGM_FI_DEV_GPU_TEMP", True, UUID="GPU-1"): "60x200",
        **state("train-0", resources={"nvidia_com_gpu": 1}, job="train"),
    }
    pod = {"namespace": "team", "pod": "train-0", "UUID": "GPU-1", "job_name": "train", "pool": "a100"}
    cases = [
        answer(queries().measured("utilization"), (pod, 0.4)),
        answer(queries().measured("temperature"), (pod, 60)),
    ]
    check(tmp_path, [], given, promql_expr_test=cases)


def test_memory_is_in_bytes_and_power_in_watts(tmp_path: Path) -> None:
    given = {
        scraped("DCGM_FI_DEV_FB_USED", True, UUID="GPU-1"): "10x200",
        scraped("DCGM_FI_DEV_FB_FREE", True, UUID="GPU-1"): "30x200",
        scraped("habanalabs_power_mW", True, UUID="G-1"): "350000x200",
        **state("train-0", resources={"nvidia_com_gpu": 1}, job="train"),
    }
    job = {"namespace": "team", "job_name": "train", "pool": "a100"}
    asked = queries()
    check(
        tmp_path,
        [],
        given,
        promql_expr_test=[
            answer(asked.aggregated("memory_used", JOB), (job, 10 * 2**20)),
            answer(asked.aggregated("memory_total", JOB), (job, 40 * 2**20)),
            answer(asked.aggregated("power", JOB), (job, 350)),
        ],
    )


@pytest.mark.parametrize("label", ["Hostname", "hostname"])
def test_devices_have_the_name_of_their_node(tmp_path: Path, label: str) -> None:
    device = {"UUID": "GPU-1", "gpu": "0", "modelName": "A100"}
    given = {series("DCGM_FI_DEV_GPU_TEMP", {**device, label: "n1"}): "60x200"}
    cases = [answer(queries().of_devices("temperature"), ({**device, "hostname": "n1"}, 60))]
    check(tmp_path, [], given, promql_expr_test=cases)


@pytest.mark.parametrize("honor", [True, False])
def test_pods_of_the_same_name_in_two_clusters_are_ambiguous(tmp_path: Path, honor: bool) -> None:
    def info(pod: str, **labels: str) -> str:
        own = {"namespace": "team", "pod": pod} if honor else {"exported_namespace": "team", "exported_pod": pod}
        target = {"namespace": "monitoring", "pod": "kube-state-metrics-1"}
        return series("kube_pod_info", {**target, **own, **labels})

    # A pod that is known twice, as of two kube-state-metrics, is one.
    alike = [info("lab-0", cluster="a"), info("lab-0", cluster="b")]
    others = [info("lab-1", cluster="a", instance=instance) for instance in ("1", "2")]
    cases = [answer(ambiguous_pods(), ({"namespace": "team", "pod": "lab-0"}, 2))]
    check(tmp_path, [], dict.fromkeys([*alike, *others], "1x200"), promql_expr_test=cases)
    check(tmp_path, [], dict.fromkeys([info("lab-0"), *others], "1x200"), promql_expr_test=[answer(ambiguous_pods())])


@pytest.mark.parametrize("recorded", [True, False], ids=["recorded", "plain"])
@pytest.mark.parametrize("at", ["2h", "2h17s"])
def test_hours_are_exact(tmp_path: Path, recorded: bool, at: str) -> None:
    """A job that started an hour ago on 4 GPUs and had one idle for half of it, and one pod that waits."""
    asked = queries(Source.RULES if recorded else Source.POD_LABELS)
    started = state("train-0", resources={"nvidia_com_gpu": 4}, job="train")
    given = {name: f"_x60 {values.removesuffix('x200')}x60" for name, values in started.items()}
    given |= {
        series("DCGM_FI_DEV_GPU_UTIL", {"namespace": "team", "pod": "train-0", "UUID": "GPU-1"}): "_x60 90x29 0x30",
        series("DCGM_FI_DEV_POWER_USAGE", {"namespace": "team", "pod": "train-0", "UUID": "GPU-1"}): "_x60 400x60",
        **state("wait-0", resources={"nvidia_com_gpu": 8}, job="wait", node="", phase="Pending"),
        **state("done-0", resources={"nvidia_com_gpu": 8}, job="done", phase="Succeeded"),
    }
    job = {"namespace": "team", "job_name": "train", "pool": "a100"}
    check(
        tmp_path,
        recording_rules(queries()) if recorded else [],
        given,
        promql_expr_test=[
            rounded(asked.gpu_hours(7200), (job, 4 * 61 / 60), at=at),
            rounded(asked.gpu_hours(7200, ("namespace",)), ({"namespace": "team"}, 4 * 61 / 60), at=at),
            rounded(asked.idle_hours(7200, 0.05), (job, 31 / 60), at=at),
            rounded(asked.measured_hours(7200), (job, 61 / 60), at=at),
            rounded(asked.energy_kwh(7200), (job, 0.4 * 61 / 60), at=at),
            rounded(asked.peak("utilization", 7200), (job, 0.9), at=at),
        ],
    )


def test_free_devices_and_their_fragmentation(tmp_path: Path) -> None:
    given = {
        'kube_node_status_allocatable{node="n1",resource="nvidia_com_gpu"}': "8x200",
        'kube_node_status_allocatable{node="n2",resource="nvidia_com_gpu"}': "8x200",
        'kube_node_status_allocatable{node="n3",resource="nvidia_com_gpu"}': "8x200",
        'kube_node_status_allocatable{node="n3",resource="cpu"}': "64x200",
        # Of no job, which takes devices all the same.
        'kube_pod_container_resource_requests{namespace="x",pod="y",node="n2",resource="nvidia_com_gpu"}': "8x200",
        'kube_pod_status_phase{namespace="x",pod="y",phase="Running"}': "1x200",
        **state("train-0", resources={"nvidia_com_gpu": 2, "cpu": 4}, job="train"),
    }
    asked = queries()
    nodes = [({"node": "n1"}, 6), ({"node": "n2"}, 0), ({"node": "n3"}, 8)]
    check(
        tmp_path,
        recording_rules(asked),
        given,
        promql_expr_test=[
            answer(asked.free(), *nodes),
            answer(
                queries(Source.RULES).free(), *[({"__name__": "node:runwhere_gpu_free:sum", **k}, v) for k, v in nodes]
            ),
            rounded(asked.fragmentation(8), ({}, 6 / 14)),
            rounded(asked.fragmentation(4), ({}, 0)),
        ],
    )


@pytest.mark.parametrize("honor", [True, False])
def test_a_program_of_a_tenant_does_not_speak_of_the_devices_and_pods_of_others(tmp_path: Path, honor: bool) -> None:
    """It claims to be the exporter and kube-state-metrics, of a pod in another namespace, by its own scrape job."""
    told = state("train-0", resources={"nvidia_com_gpu": 1}, job="train")
    other = {**told, **state("train-0", resources={"nvidia_com_gpu": 900}, job="evil")}
    own = {"job": "gpuctl-dcgm-exporter", "UUID": "GPU-1"}
    given = {
        scraped("DCGM_FI_DEV_GPU_UTIL", honor, **own): "40x200",
        scraped("DCGM_FI_DEV_GPU_UTIL", honor, job="kubernetes-pods", UUID="GPU-1"): "99x200",
        scraped("DCGM_FI_DEV_GPU_UTIL", honor, job="a/gpuctl-dcgm-exporter", UUID="GPU-666"): "99x200",
        **{name.replace("{", '{job="kube-state-metrics",', 1): values for name, values in told.items()},
        **{name.replace("{", '{job="kubernetes-pods",', 1): values for name, values in other.items()},
    }
    trusting = plain_queries(
        built_in_catalog(), exporter_jobs="gpuctl-dcgm-exporter", state_jobs="kube-state-metrics|other"
    )
    pod = {"namespace": "team", "pod": "train-0", "job_name": "train", "pool": "a100"}
    held = {**pod, "node": "n1", "resource": "nvidia_com_gpu"}
    cases = [
        answer(trusting.measured("utilization"), ({**pod, "UUID": "GPU-1"}, 0.4)),
        answer(trusting.allocated(), (held, 1)),
    ]
    check(tmp_path, [], given, promql_expr_test=cases)
    rules_file(tmp_path / "trusting.yml", recording_rules(trusting))
    every = [rule["expr"] for group in rule_groups(trusting) for rule in group["rules"]]
    raw = re.compile(r"\b(?:kube_(?!.*:)\w+|DCGM_\w+)\b(?!\{[^}]*job=~)")
    assert [text for text in every if raw.search(text)] == []


def test_the_wait_in_the_queue_is_that_of_the_last_pod(tmp_path: Path) -> None:
    given = {
        'kube_pod_created{namespace="team",pod="train-0"}': "100x200",
        'kube_pod_created{namespace="team",pod="train-1"}': "100x200",
        'kube_pod_status_scheduled_time{namespace="team",pod="train-0"}': "130x200",
        'kube_pod_status_scheduled_time{namespace="team",pod="train-1"}': "190x200",
        **state("train-0", resources={}, job="train"),
        **state("train-1", resources={}, job="train"),
    }
    job = {"namespace": "team", "job_name": "train", "pool": "a100"}
    check(tmp_path, [], given, promql_expr_test=[answer(queries().queue_wait(), (job, 90))])


def test_the_network_of_a_job_is_that_of_its_pods(tmp_path: Path) -> None:
    receive = "container_network_receive_bytes_total"
    given = {
        series(receive, {"namespace": "team", "pod": "train-0", "interface": "eth0"}): "0+600x200",
        series(receive, {"namespace": "team", "pod": "train-0", "interface": "eth1"}): "0+1200x200",
        series(receive, {"namespace": "kube-system", "pod": "dns", "interface": "eth0"}): "0+600x200",
        **state("train-0", resources={}, job="train"),
    }
    job = {"namespace": "team", "job_name": "train", "pool": "a100"}
    named = queries(Source.POD_NAMES).network("receive", POD, PodSelection("team", pods="train-.*"))
    cases = [
        answer(queries().network("receive"), (job, 30), at="10m"),
        answer(named, ({"namespace": "team", "pod": "train-0"}, 30), at="10m"),
    ]
    check(tmp_path, [], given, promql_expr_test=cases)


def test_a_string_cannot_end_itself() -> None:
    assert promql_string('a"} or up{x="\\\n') == '"a\\"} or up{x=\\"\\\\\\n"'


@pytest.mark.parametrize(
    ("name", "is_reserved"),
    [
        ("kube_pod_labels", True),
        ("container_network_receive_bytes_total", True),
        (POD_INFO, True),
        (JOB_UTILIZATION, True),
        *((measure.record, True) for measure in MEASURES.values()),
        ("DCGM_FI_DEV_GPU_UTIL", True),
        ("npu_chip_info_utilization", True),
        ("train_loss", False),
        ("vllm:generation_tokens_total", False),
        ("process_cpu_seconds_total", False),
    ],
)
def test_no_program_of_a_job_tells_what_the_questions_rest_on(name: str, is_reserved: bool) -> None:
    assert bool(re.fullmatch(reserved_metrics(built_in_catalog()), name)) == is_reserved
