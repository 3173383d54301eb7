# SPDX-License-Identifier: BSD-2-Clause
"""The real Prometheus and Alertmanager over the exporters of a simulated cluster.

with prometheus(tmp_path, cluster.url, rules=[path]) as server:
    server.wait_for('up{job="nvidia-dcgm-exporter"}')
    server.query("DCGM_FI_DEV_GPU_TEMP")
"""

from __future__ import annotations

import json
import shutil
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from kubesim import Cluster

from tools import debian_programs
from tools.local_server import PATIENCE, free_port, running

HONOR_LABELS = ("kube-state-metrics", "cadvisor", "amd")  # as their charts have it, whatever the others do
_UNVERIFIED = ssl._create_unverified_context()  # the simulated cluster's own certificate


def needs(*programs: str) -> pytest.MarkDecorator:
    """For tests that start these programs."""
    missing = debian_programs.why_missing(programs)
    return pytest.mark.skipif(missing is not None, reason=str(missing))


needs_prometheus = needs("prometheus", "promtool")
needs_alertmanager = needs("prometheus-alertmanager", "amtool")
#: What kube-state-metrics is started with to see pools and jobs.
ALLOW_LIST = (
    "pods=[app,runwhere.ai/job-type,runwhere.ai/pool,runwhere.ai/priority,runwhere.ai/namespace],"
    "nodes=[runwhere.ai/pool,runwhere.ai/gpu-type]"
)


@dataclass(frozen=True)
class World:
    """How a cluster's monitoring is set up: what differs between real ones."""

    honor_labels: bool = False  # for the exporters of devices; dcgm-exporter's chart and gpu-operator have false
    hostname: str = "Hostname"  # dcgm-exporter until 4.5; then hostname
    profiling: bool = True  # DCGM_FI_PROF_…
    pods: bool = True  # exporters find the pods of devices
    allow_list: str = ALLOW_LIST  # of kube-state-metrics; "" as it comes
    exporters: Sequence[str] = (
        "dcgm-exporter",
        "hami",
        "amd",
        "npu-exporter",
        "gaudi",
        "mlu-exporter",
        "kube-state-metrics",
        "cadvisor",
        "program",
    )

    def honors(self, exporter: str) -> bool:
        return self.honor_labels or exporter in HONOR_LABELS

    def options(self, exporter: str) -> dict[str, str]:
        """The parameters of the exporter's URLs."""
        if exporter == "kube-state-metrics":
            return {"metric_labels_allowlist": self.allow_list}
        if exporter == "dcgm-exporter":
            return {
                "hostname": self.hostname,
                "profiling": str(self.profiling).lower(),
                "pods": str(self.pods).lower(),
            }
        return {}


class Prometheus:
    """A running Prometheus."""

    def __init__(self, url: str, cluster: str = "", world: World | None = None) -> None:
        self.url, self.cluster, self.world = url, cluster, world or World()

    def query(self, expression: str, at: float | None = None) -> list[dict[str, Any]]:
        """The result of an instant query: `metric` and `value` of each series. AssertionError for a refusal."""
        parameters = {"query": expression, **({} if at is None else {"time": str(at)})}
        found: list[dict[str, Any]] = self.get("query", parameters)["result"]
        return found

    def value(self, expression: str, at: float | None = None) -> float:
        """Of an expression with one result."""
        (only,) = self.query(expression, at)
        return float(only["value"][1])

    def query_range(self, expression: str, start: float, end: float, step: float) -> list[dict[str, Any]]:
        parameters = {"query": expression, "start": str(start), "end": str(end), "step": str(step)}
        found: list[dict[str, Any]] = self.get("query_range", parameters)["result"]
        return found

    def get(self, path: str, parameters: Mapping[str, str] | None = None) -> Any:
        """The data of an answer of /api/v1/…"""
        body = urllib.parse.urlencode(parameters).encode() if parameters else None
        request = urllib.request.Request(f"{self.url}/api/v1/{path}", data=body)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error

    def wait_for(
        self,
        expression: str,
        condition: Callable[[list[dict[str, Any]]], object] = bool,
        seconds: float = PATIENCE,
    ) -> list[dict[str, Any]]:
        """Ask until the answer meets the condition: by default, until there is any."""
        return eventually(lambda: self.query(expression), condition, seconds, expression)

    def wait_until_scraped(self, seconds: float = PATIENCE) -> None:
        """Until all targets that there are by now have been scraped, and rules evaluated on what that brought."""
        names = self.world.exporters
        expected = {path for exporter in names for path in _discovered(self.cluster, self.world, exporter)}

        def missing() -> dict[str, str]:
            active = self.get("targets")["activeTargets"]
            found = {urllib.parse.urlsplit(each["scrapeUrl"]).path: each for each in active}
            down = {path: each["lastError"] for path, each in found.items() if each["health"] != "up"}
            return dict.fromkeys(expected - set(found), "not discovered") | down

        eventually(missing, lambda found: not found, seconds, "targets that have not been scraped")
        scraped = time.time()

        def evaluated(rules: dict[str, Any]) -> bool:
            return all(_timestamp(group["lastEvaluation"]) > scraped for group in rules["groups"])

        eventually(lambda: self.get("rules"), evaluated, seconds, "rules")


class Alertmanager:
    """A running Alertmanager, and the webhook that its alerts go to."""

    def __init__(self, url: str, webhook: Webhook) -> None:
        self.url, self.webhook = url, webhook

    def alerts(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{self.url}/api/v2/alerts", timeout=60) as answer:
            found: list[dict[str, Any]] = json.load(answer)
            return found


@dataclass
class Webhook:
    """An HTTP server that keeps what is posted to it."""

    url: str = ""
    payloads: list[dict[str, Any]] = field(default_factory=list)

    def wait_for(
        self, condition: Callable[[list[dict[str, Any]]], object] = bool, seconds: float = PATIENCE
    ) -> list[dict[str, Any]]:
        return eventually(lambda: list(self.payloads), condition, seconds, "payloads of the webhook")


@contextmanager
def prometheus(
    directory: Path,
    cluster: str = "",
    world: World | None = None,
    *,
    rules: Sequence[Path] = (),
    blocks: Path | None = None,
    alertmanager: str = "",
    interval: str = "1s",
    port: int = 0,
    lookback: str = "59s",
    more: Sequence[str] = (),
) -> Iterator[Prometheus]:
    """A Prometheus that scrapes the exporters of the simulated cluster with this URL.

    `rules`: files of rules. `blocks`: a directory of blocks (promtool tsdb create-blocks-from), moved to its data.
    `alertmanager`: the URL of one that its alerts go to. `lookback`: with blocks, for how long a sample counts. `more`:
    other options."""
    directory.mkdir(parents=True, exist_ok=True)
    data, config = directory / "data", directory / "prometheus.yml"
    if blocks is not None:
        shutil.move(str(blocks), data)
    world = world or World()
    settings = prometheus_config(cluster, world, rules, alertmanager, interval)
    config.write_text(json.dumps(settings, indent=1))  # JSON is YAML
    port = port or free_port()
    command = [
        _program("prometheus"),
        f"--config.file={config}",
        f"--storage.tsdb.path={data}",
        "--storage.tsdb.retention.time=10y",
        f"--web.listen-address=127.0.0.1:{port}",
        "--web.enable-lifecycle",
        # What was written afterwards has no marks of staleness: a series is to end with its last sample.
        f"--query.lookback-delta={lookback if blocks else '5m'}",
        "--log.level=warn",
        *more,
    ]
    server = Prometheus(f"http://127.0.0.1:{port}", cluster, world)
    with running(command, directory / "prometheus.log", f"{server.url}/-/ready"):
        yield server


def prometheus_config(
    cluster: str, world: World, rules: Sequence[Path] = (), alertmanager: str = "", interval: str = "1s"
) -> dict[str, Any]:
    """A scrape configuration for each exporter, with honor_labels as its chart or the world says."""
    scrapes = [
        {
            "job_name": exporter,
            "honor_labels": world.honors(exporter),
            "tls_config": {"insecure_skip_verify": True},
            "http_sd_configs": [
                {
                    "url": _discovery(cluster, world, exporter),
                    "refresh_interval": interval,
                    "tls_config": {"insecure_skip_verify": True},
                }
            ],
        }
        for exporter in (world.exporters if cluster else ())
    ]
    return {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "scrape_configs": scrapes,
        "rule_files": [str(path.resolve()) for path in rules],
        "alerting": {
            "alertmanagers": [{"static_configs": [{"targets": [alertmanager.removeprefix("http://")]}]}]
            if alertmanager
            else []
        },
    }


def _discovery(cluster: str, world: World, exporter: str) -> str:
    return f"{cluster}/_sim/targets/{exporter}?{urllib.parse.urlencode(world.options(exporter))}"


def _discovered(cluster: str, world: World, exporter: str) -> list[str]:
    """The paths of the targets of an exporter."""
    with urllib.request.urlopen(_discovery(cluster, world, exporter), timeout=60, context=_UNVERIFIED) as answer:
        return [target["labels"]["__metrics_path__"] for target in json.load(answer)]


@contextmanager
def alertmanager(
    directory: Path, config: Callable[[str], Mapping[str, Any]] | None = None, port: int = 0
) -> Iterator[Alertmanager]:
    """An Alertmanager; `config` makes its configuration of the URL of the webhook, to which by default all goes."""
    directory.mkdir(parents=True, exist_ok=True)
    path, port = directory / "alertmanager.yml", port or free_port()
    with webhook() as receiver:
        path.write_text(json.dumps((config or alertmanager_config)(receiver.url), indent=1))
        command = [
            _program("prometheus-alertmanager"),
            f"--config.file={path}",
            f"--storage.path={directory / 'alertmanager'}",
            f"--web.listen-address=127.0.0.1:{port}",
            "--cluster.listen-address=",
            "--log.level=warn",
        ]
        server = Alertmanager(f"http://127.0.0.1:{port}", receiver)
        with running(command, directory / "alertmanager.log", f"{server.url}/-/ready"):
            yield server


def alertmanager_config(webhook_url: str) -> dict[str, Any]:
    return {
        "route": {"receiver": "webhook", "group_by": ["..."], "group_wait": "0s", "repeat_interval": "1h"},
        "receivers": [{"name": "webhook", "webhook_configs": [{"url": webhook_url, "send_resolved": True}]}],
    }


@contextmanager
def webhook() -> Iterator[Webhook]:
    """On a thread of its own."""
    receiver = Webhook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            receiver.payloads.append(json.loads(body))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}/"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()


def backfill(
    directory: Path,
    cluster: Cluster,
    start: float,
    end: float,
    world: World | None = None,
    *,
    step: float = 60,
    names: str = ".*",
) -> Path:
    """Blocks for `prometheus` with what it would have scraped of the pods that are and that were.

    `names`: a pattern of the metrics that the test asks for; a day of all metrics of a large cluster takes minutes."""
    world = world or World()
    exporters = {name: (world.options(name), world.honors(name)) for name in world.exporters}
    blocks = directory / "blocks"
    for text in cluster.write_history(directory / "openmetrics", start, end, step, exporters, names):
        promtool("tsdb", "create-blocks-from", "openmetrics", "--quiet", str(text), str(blocks))
        text.unlink()
    return blocks


def shipped_rules(path: Path, alerts: Mapping[str, Any] | None = None, interval: str = "") -> Path:
    """A file with the rules of this collection, as the settings of its alerts have them; all of them with an interval
    that is given."""
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.catalog import built_in_catalog
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.alerts import rule_groups
    from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.promql import plain_queries

    given = {"interval": interval} if interval else {}
    groups = [{**group, **given} for group in rule_groups(plain_queries(built_in_catalog()), alerts, **given)]
    path.write_text(json.dumps({"groups": groups}, indent=1))
    return path


def promtool(*arguments: str) -> str:
    """What promtool prints; AssertionError when it fails."""
    done = subprocess.run(
        [_program("promtool"), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def eventually(
    ask: Callable[[], Any], condition: Callable[[Any], object], seconds: float = PATIENCE, what: str = ""
) -> Any:
    deadline = time.monotonic() + seconds
    while not condition(answer := ask()):
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s, last: {str(answer)[:2000]}"
        time.sleep(0.2)
    return answer


def _program(name: str) -> str:
    found = debian_programs.find(name)
    assert found is not None, debian_programs.why_missing([name])
    return str(found)


def _timestamp(text: str) -> float:
    """Go's RFC 3339 with nanoseconds."""
    head, _, rest = text.partition(".")
    fraction = rest[: min(6, len(rest.rstrip("Z")))] if rest else "0"
    zone = rest.lstrip("0123456789") or "Z"
    return datetime.fromisoformat(f"{head}.{fraction:0<6}{zone.replace('Z', '+00:00')}").timestamp()
