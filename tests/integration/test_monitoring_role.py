# SPDX-License-Identifier: BSD-2-Clause
"""The role monitoring: what it installs by each method, again, in check mode, changed and removed."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubesim import Cluster

from . import monitoring
from .ansible import Ansible, Run
from .api import Api
from .test_roles import play

OPERATOR = "/apis/monitoring.coreos.com/v1"
KINDS = {
    "ConfigMap": "/api/v1/configmaps",
    "PrometheusRule": f"{OPERATOR}/prometheusrules",
    "PodMonitor": f"{OPERATOR}/podmonitors",
    "ServiceMonitor": f"{OPERATOR}/servicemonitors",
    "AlertmanagerConfig": "/apis/monitoring.coreos.com/v1alpha1/alertmanagerconfigs",
    "GrafanaDashboard": "/apis/grafana.integreatly.org/v1beta1/grafanadashboards",
    "ScaledObject": "/apis/keda.sh/v1alpha1/scaledobjects",
}
ADDONS = {"prometheus-operator", "grafana-operator", "keda"}
RECEIVERS = [
    {
        "name": "operators",
        "severities": ["critical"],
        "webhook_url": "https://events.example.com/alerts",
        "webhook_token_secret": {"name": "alerts", "key": "token"},
        "webhook_token_file": "/etc/alertmanager/token",
    },
    {
        "name": "research",
        "namespaces": ["team-a"],
        "email": "research@example.com",
        "slack_channel": "#gpu",
        "slack_url_secret": {"name": "slack", "key": "url"},
        "slack_url_file": "/etc/alertmanager/slack",
    },
]
SMTP = {"from": "gpuctl@example.com", "smarthost": "mail.example.com:587"}


@pytest.fixture
def ansible_and_api(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Ansible, Api]]:
    with Cluster(nodes=1, addons=getattr(request, "param", ADDONS)).running() as cluster:
        path = tmp_path / "kubeconfig"
        cluster.kubeconfig(path)
        api = Api(str(path))
        api.create("namespace", {"metadata": {"name": "team-a"}})
        yield Ansible(tmp_path, {"K8S_AUTH_KUBECONFIG": str(path)}), api


def install(ansible: Ansible, check: bool = False, **variables: Any) -> Run:
    given = {f"monitoring_{name}": value for name, value in variables.items()}
    return play(ansible, "monitoring", check=check, **given)


def changed(done: Run) -> list[str]:
    assert done.status == 0, done.output
    return [task.task.rpartition(" : ")[2] for task in done.tasks if task.changed]


def installed(api: Api) -> dict[str, dict[str, Any]]:
    """The objects of the role by kind and name."""
    served = {group["name"] for group in api.call("GET", "/apis")[1]["groups"]} | {"v1"}
    found: dict[str, dict[str, Any]] = {}
    for kind, path in KINDS.items():
        found[kind] = {}
        if path.split("/")[2] in served:
            status, answer = api.call("GET", f"{path}?labelSelector=runwhere.ai/stack%3Dmonitoring")
            assert status == 200, answer
            found[kind] = {obj["metadata"]["name"]: obj for obj in answer["items"]}
    return found


def create(api: Api, kind: str, plural: str, spec: dict[str, Any]) -> None:
    metadata = {"name": "kps", "namespace": "observability"}
    body = {"apiVersion": "monitoring.coreos.com/v1", "kind": kind, "metadata": metadata, "spec": spec}
    status, answer = api.call("POST", f"{OPERATOR}/namespaces/observability/{plural}", body)
    assert status == 201, answer


def stack(api: Api, strategy: dict[str, Any] | None = None) -> None:
    """What kube-prometheus-stack installs, as far as the role looks at it."""
    api.create("namespace", {"metadata": {"name": "observability"}})
    selector = {"matchLabels": {"release": "kps"}}
    spec = {"ruleSelector": selector, "podMonitorSelector": selector, "serviceMonitorSelector": selector}
    create(api, "Prometheus", "prometheuses", spec)
    create(api, "Alertmanager", "alertmanagers", strategy or {})


def test_install_again_check_and_remove(ansible_and_api: tuple[Ansible, Api]) -> None:
    ansible, api = ansible_and_api
    stack(api)
    variables = {"receivers": RECEIVERS, "smtp": SMTP, "autoscaling": "prometheus_adapter"}
    done = install(ansible, check=True, **variables)
    assert changed(done) == ["Apply the objects"]
    assert not any(installed(api).values())

    done = install(ansible, **variables)
    assert changed(done) == ["Apply the objects"]
    found = installed(api)
    assert {kind: sorted(objects) for kind, objects in found.items() if objects} == {
        "AlertmanagerConfig": ["gpuctl-operators", "gpuctl-research"],
        "ConfigMap": [
            *(f"gpuctl-dashboard-{name}" for name in ("cluster", "gpu-health", "job", "pool", "team")),
            "gpuctl-prometheus-adapter",
        ],
        "PodMonitor": ["gpuctl-dcgm-exporter", "gpuctl-jobs"],
        "PrometheusRule": ["gpuctl"],
    }
    rule = found["PrometheusRule"]["gpuctl"]
    assert rule["metadata"]["namespace"] == "observability"
    assert rule["metadata"]["labels"]["release"] == "kps", "the label that Prometheus selects"
    (endpoint,) = found["PodMonitor"]["gpuctl-jobs"]["spec"]["podMetricsEndpoints"]
    (dropped,) = endpoint["metricRelabelings"]
    assert (dropped["action"], dropped["sourceLabels"]) == ("drop", ["__name__"])
    assert re.fullmatch(dropped["regex"], "DCGM_FI_DEV_GPU_UTIL"), "no program speaks for the exporter"
    exporter = found["PodMonitor"]["gpuctl-dcgm-exporter"]["spec"]
    assert exporter["namespaceSelector"] == {"matchNames": ["gpuctl-accelerators"]}, "no pod of a user is the exporter"
    assert exporter["podMetricsEndpoints"][0]["relabelings"][-1] == {
        "targetLabel": "job", "replacement": "gpuctl-dcgm-exporter",
    }  # fmt: skip
    rules = json.dumps(rule["spec"]["groups"][0]["rules"]).replace("\\", "")
    for trusted in ('DCGM_FI_DEV_GPU_UTIL{job=~"gpuctl-dcgm-exporter"}', 'job=~"kube-state-metrics"'):
        assert trusted in rules
    groups = {"runwhere-gpuctl.recording": "1m", "runwhere-gpuctl.alerts": "1m", "runwhere-gpuctl.history": "15m"}
    assert {group["name"]: group["interval"] for group in rule["spec"]["groups"]} == groups
    assert "{{ $labels.hostname }}" in rule["spec"]["groups"][1]["rules"][0]["annotations"]["summary"]
    dashboard = found["ConfigMap"]["gpuctl-dashboard-job"]
    assert dashboard["metadata"]["labels"]["grafana_dashboard"] == "1"
    assert json.loads(dashboard["data"]["gpuctl-job.json"])["uid"] == "gpuctl-job"
    configs = found["AlertmanagerConfig"]
    assert configs["gpuctl-research"]["metadata"]["namespace"] == "team-a"
    assert configs["gpuctl-operators"]["spec"]["receivers"][0]["webhookConfigs"][0]["httpConfig"] == {
        "authorization": {"type": "Bearer", "credentials": {"name": "alerts", "key": "token"}}
    }
    # No kube-state-metrics, and an Alertmanager that only knows the alerts of its own namespace.
    assert "no kube-state-metrics found." in done.output
    assert "alertmanagerConfigMatcherStrategy.type to None" in done.output

    assert changed(install(ansible, **variables)) == [], "nothing to do"
    settings = {"GpuIdle": {"enabled": False}, "GpuTemperatureHigh": {"threshold": 80}}
    done = install(ansible, dashboards="none", alerts=settings)
    assert changed(done) == ["Apply the objects"]
    found = installed(api)
    assert {kind for kind, objects in found.items() if objects} == {"PodMonitor", "PrometheusRule"}
    alerts = {rule["alert"]: rule["expr"] for rule in found["PrometheusRule"]["gpuctl"]["spec"]["groups"][1]["rules"]}
    assert "GpuIdle" not in alerts
    assert alerts["GpuTemperatureHigh"] == "uuid:runwhere_gpu_temperature:celsius>=80"

    assert changed(install(ansible, state="absent")) == ["Apply the objects"]
    assert not any(installed(api).values())
    assert changed(install(ansible, state="absent")) == []


def test_operators_of_grafana_and_keda(ansible_and_api: tuple[Ansible, Api]) -> None:
    ansible, api = ansible_and_api
    exporter = {
        "name": "npu",
        "kind": "service",
        "labels": {"app": "npu-exporter"},
        "port": 8082,
        "namespaces": ["npu"],
    }
    service = {"name": "chat", "namespace": "team-a", "max_replicas": 8, "target": 60}
    variables = {
        "namespace": "gpu-monitoring",
        "dashboards": "operator",
        "autoscaling": "keda",
        "keda_services": [service],
        "prometheus_url": "http://prometheus-operated.observability:9090",
        "exporters": [exporter],
    }
    assert changed(install(ansible, **variables)) == ["Apply the objects"]
    found = installed(api)
    assert len(found["GrafanaDashboard"]) == 5
    monitor = found["ServiceMonitor"]["gpuctl-npu"]
    assert monitor["metadata"]["namespace"] == "gpu-monitoring"
    assert monitor["spec"]["namespaceSelector"] == {"matchNames": ["npu"]}
    scaled = found["ScaledObject"]["chat"]["spec"]
    assert scaled["maxReplicaCount"] == 8
    assert scaled["triggers"][0]["metadata"]["threshold"] == "60"
    assert 'job_name="chat"' in scaled["triggers"][0]["metadata"]["query"]
    assert changed(install(ansible, **variables)) == []


@pytest.mark.parametrize("ansible_and_api", [set()], indirect=True)
def test_a_missing_operator_is_one_sentence(ansible_and_api: tuple[Ansible, Api]) -> None:
    ansible, api = ansible_and_api
    done = install(ansible)
    assert done.status != 0
    assert "monitoring_method: the cluster has no Prometheus operator. Install it, or use " in done.output
    assert not any(installed(api).values())


@pytest.mark.parametrize("ansible_and_api", [set()], indirect=True)
def test_files_without_any_operator(ansible_and_api: tuple[Ansible, Api], tmp_path: Path) -> None:
    ansible, api = ansible_and_api
    directory = tmp_path / "files"
    methods = {"method": "files", "dashboards": "files"}
    variables = {**methods, "directory": str(directory), "receivers": RECEIVERS, "smtp": SMTP}
    assert changed(install(ansible, check=True, **variables)) != []
    assert not directory.exists()
    written = ["Create the directory", "Write the configuration", "Write the dashboards"]
    assert changed(install(ansible, **variables)) == written
    assert changed(install(ansible, **variables)) == []
    assert {path.name for path in directory.iterdir()} == {
        "gpuctl-rules.yml", "gpuctl-scrape.yml", "gpuctl-alertmanager.yml", "gpuctl-adapter.yml",
        *(f"gpuctl-{name}.json" for name in ("cluster", "gpu-health", "job", "pool", "team")),
    }  # fmt: skip
    assert not any(installed(api).values())
    check_files(directory)

    assert changed(install(ansible, state="absent", directory=str(directory))) == ["Remove the files"]
    assert list(directory.iterdir()) == []


def test_a_relative_directory_is_in_the_working_directory(ansible_and_api: tuple[Ansible, Api], tmp_path: Path) -> None:
    ansible, _api = ansible_and_api
    given = json.dumps(
        {"monitoring_method": "files", "monitoring_directory": "files", "monitoring_dashboards": "files"}
    )
    done = ansible.run("ansible-playbook", "runwhere.gpuctl.monitoring", "-e", given)
    assert done.status == 0, done.output
    assert (tmp_path / "files" / "gpuctl-rules.yml").exists()
    assert "The files are in files." in " ".join(done.output.split())


def check_files(directory: Path) -> None:
    """What Prometheus' and Alertmanager's own programs say of them."""
    if missing := monitoring.debian_programs.why_missing(("promtool", "amtool")):
        pytest.skip(missing)
    monitoring.promtool("check", "rules", str(directory / "gpuctl-rules.yml"))
    config = directory.parent / "prometheus.yml"
    scrapes = yaml.safe_load((directory / "gpuctl-scrape.yml").read_text())
    for scrape in scrapes["scrape_configs"]:
        # Debian builds Prometheus without the discovery of Kubernetes.
        assert scrape.pop("kubernetes_sd_configs")[0]["role"] == "pod"
    config.write_text(json.dumps(scrapes))
    monitoring.promtool("check", "config", str(config))
    path = str(directory / "gpuctl-alertmanager.yml")
    amtool("check-config", path)
    for labels, receivers in (
        (["alertname=NodeLost", "severity=critical", "node=n1"], "operators"),
        (["alertname=GpuIdle", "severity=warning", "namespace=team-a"], "research"),
        (["alertname=GpuXid", "severity=critical", "namespace=team-a"], "operators,research"),
        (["alertname=GpuIdle", "severity=warning", "namespace=team-b"], "null"),
        (["alertname=Watchdog", "severity=critical"], "null"),
    ):
        assert amtool("config", "routes", "test", "--config.file", path, *labels).splitlines()[-1] == receivers


def amtool(*arguments: str) -> str:
    program = str(monitoring.debian_programs.find("amtool"))
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"method": "files"}, "monitoring_directory: missing. Give the directory for the files."),
        ({"dashboards": "grafana"}, "monitoring_grafana_url: missing. Give the URL of Grafana."),
        ({"accelerators": ["nvidea"]}, "accelerators: unknown accelerator: nvidea. Known are amd, ascend, "),
        ({"alerts": {"GpuIdel": {}}}, "alerts: unknown alert: GpuIdel. Known are GpuTemperatureHigh, "),
    ],
)
def test_what_is_wrong_is_said(ansible_and_api: tuple[Ansible, Api], variables: dict[str, Any], message: str) -> None:
    ansible, api = ansible_and_api
    done = install(ansible, **variables)
    assert done.status != 0
    assert message in done.output
    assert not any(installed(api).values())
