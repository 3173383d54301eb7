# SPDX-License-Identifier: BSD-2-Clause
"""Write roles/monitoring/files/dashboards/*.json, which Grafana shows.

    python -m tools.generate_dashboards

The panels ask recorded series (module_utils/insight/prometheus/promql.py), so that they are the same for all vendors.
grafana-foundation-sdk builds Grafana's classic JSON; it needs Python 3.11.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".cache" / "collections"))

from ansible_collections.runwhere.gpuctl.plugins.module_utils.accelerators.catalog import built_in_catalog  # noqa: E402
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.promql import (  # noqa: E402
    ALLOCATED,
    JOB_UTILIZATION,
    MEASURES,
    POD_INFO,
    Source,
    plain_queries,
)

FOLDER = ROOT / "roles" / "monitoring" / "files" / "dashboards"
ASKED = plain_queries(built_in_catalog(), Source.RULES)
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True)
class Panel:
    """A panel: its expressions by legend, and how it is drawn. ``width`` is of 24."""

    title: str
    expressions: Mapping[str, str]
    unit: str = "short"
    kind: str = "timeseries"  # or stat, table, bargauge
    width: int = 12
    height: int = 8
    description: str = ""
    maximum: float | None = None
    thresholds: Sequence[tuple[float | None, str]] = ((None, "green"),)
    stacked: bool = False
    limit: float | None = None  # a line


@dataclass(frozen=True)
class Page:
    """A dashboard. ``variables`` are labels by name, with the series that has them."""

    name: str
    title: str
    description: str
    panels: Sequence[Panel]
    variables: Mapping[str, str] | None = None


def measured(measure: str, *matchers: str) -> str:
    """A recorded measure by pod and device."""
    return selected(MEASURES[measure].record, *matchers)


def selected(series: str, *matchers: str) -> str:
    return f"{series}{{{','.join(matchers)}}}" if matchers else series


def over(measure: str) -> str:
    return MEASURES[measure].device_record


UTIL, HOT = ((None, "red"), (0.05, "orange"), (0.5, "green")), ((None, "green"), (75, "orange"), (85, "red"))
POOL, TEAM, JOB = 'pool=~"$pool"', 'namespace=~"$namespace"', 'job_name=~"$job"'
FRAGMENTED = ((None, "green"), (0.3, "orange"), (0.6, "red"))
FIRING = 'ALERTS{alertstate="firing",alertname=~"Gpu.+|NodeLost"}'
NONE = 'label_replace(vector(0),"alertname","none","","")'
EXTENDED = 'resource=~"requests[.].+/.+"'


def pending(*matchers: str) -> str:
    """Pods of jobs that wait."""
    waiting = 'max by(namespace,pod)(kube_pod_status_phase{phase="Pending"}==1)'
    return f"({waiting})*on(namespace,pod) group_left(job_name,pool){selected(POD_INFO, *matchers)}"


def hours(by: str, *matchers: str) -> str:
    """GPU-hours over the range of the dashboard, in steps of a minute."""
    return f"sum by({by})(sum_over_time(({selected(ALLOCATED, *matchers)})[$__range:1m]))/60"


def idle_hours(by: str, *matchers: str) -> str:
    return f"sum by({by})(count_over_time(({measured('utilization', *matchers)}<0.05)[$__range:1m]))/60"


PAGES = (
    Page(
        "cluster",
        "GPU cluster",
        "How many devices there are, who holds them, and how much they are used.",
        (
            Panel("Devices", {"devices": f"sum({ASKED.allocatable()})"}, kind="stat", width=4, height=4),
            Panel("Free", {"free": f"sum({ASKED.free()})"}, kind="stat", width=4, height=4),
            Panel("Held by jobs", {"held": f"sum({ALLOCATED})"}, kind="stat", width=4, height=4),
            Panel(
                "Utilization of held devices",
                {"utilization": f"avg({measured('utilization')})"},
                "percentunit",
                "stat",
                4,
                4,
                thresholds=UTIL,
            ),
            Panel(
                "Fragmentation",
                {"for 8 devices": ASKED.fragmentation(8)},
                "percentunit",
                "stat",
                4,
                4,
                "The part of the free devices that no job with 8 devices on a node can get.",
                thresholds=FRAGMENTED,
            ),
            Panel(
                "Waiting pods",
                {"pods": f"count({pending()}) or vector(0)"},
                kind="stat",
                width=4,
                height=4,
                thresholds=((None, "green"), (1, "orange")),
            ),
            Panel(
                "Devices held by pool",
                {"{{pool}}": f"sum by(pool)({ALLOCATED})", "free": f"sum({ASKED.free()})"},
                stacked=True,
            ),
            Panel(
                "Utilization by pool",
                {"{{pool}}": f"avg by(pool)({measured('utilization')})"},
                "percentunit",
                maximum=1,
            ),
            Panel("Devices held by team", {"{{namespace}}": f"sum by(namespace)({ALLOCATED})"}, stacked=True),
            Panel(
                "Utilization by team",
                {"{{namespace}}": f"avg by(namespace)({measured('utilization')})"},
                "percentunit",
                maximum=1,
            ),
            Panel(
                "Jobs that use their devices least",
                {"{{namespace}}/{{job_name}}": f"bottomk(10, {JOB_UTILIZATION})"},
                "percentunit",
                "bargauge",
                maximum=1,
                thresholds=UTIL,
            ),
            Panel("Power", {"all devices": f"sum({over('power')})", "held": f"sum({measured('power')})"}, "watt"),
        ),
    ),
    Page(
        "pool",
        "GPU pool",
        "The devices of a pool: who holds them, how much they are used, and what waits for them.",
        (
            Panel("Held", {"held": f"sum({selected(ALLOCATED, POOL)})"}, kind="stat", width=6, height=4),
            Panel("Jobs", {"jobs": f"count({selected(JOB_UTILIZATION, POOL)})"}, kind="stat", width=6, height=4),
            Panel(
                "Utilization",
                {"utilization": f"avg({measured('utilization', POOL)})"},
                "percentunit",
                "stat",
                6,
                4,
                thresholds=UTIL,
            ),
            Panel(
                "Waiting pods",
                {"pods": f"count({pending(POOL)}) or vector(0)"},
                kind="stat",
                width=6,
                height=4,
                thresholds=((None, "green"), (1, "orange")),
            ),
            Panel(
                "Devices held by job",
                {"{{namespace}}/{{job_name}}": f"sum by(namespace,job_name)({selected(ALLOCATED, POOL)})"},
                stacked=True,
            ),
            Panel(
                "Utilization by job",
                {"{{namespace}}/{{job_name}}": selected(JOB_UTILIZATION, POOL)},
                "percentunit",
                maximum=1,
            ),
            Panel("Devices held by node", {"{{node}}": f"sum by(node)({selected(ALLOCATED, POOL)})"}, stacked=True),
            Panel(
                "Memory in use",
                {
                    "{{namespace}}/{{job_name}}": (
                        f"max by(namespace,job_name)({measured('memory_used', POOL)}"
                        f"/on(namespace,pod,UUID,GPU_I_ID) group_left() {MEASURES['memory_total'].record})"
                    )
                },
                "percentunit",
                maximum=1,
            ),
        ),
        {"pool": ALLOCATED},
    ),
    Page(
        "team",
        "GPU team",
        "The GPU-hours of a team, how many of them were idle, and its quota.",
        (
            Panel("GPU-hours", {"held": hours("", TEAM)}, "h", "stat", 6, 4),
            Panel("Idle GPU-hours", {"idle": f"{idle_hours('', TEAM)} or vector(0)"}, "h", "stat", 6, 4),
            Panel("Held now", {"held": f"sum({selected(ALLOCATED, TEAM)})"}, kind="stat", width=6, height=4),
            Panel(
                "Utilization",
                {"utilization": f"avg({measured('utilization', TEAM)})"},
                "percentunit",
                "stat",
                6,
                4,
                thresholds=UTIL,
            ),
            Panel(
                "GPU-hours by job",
                {"{{job_name}}": f"topk(15, {hours('job_name', TEAM)})"},
                "h",
                "bargauge",
            ),
            Panel(
                "Idle GPU-hours by job",
                {"{{job_name}}": f"topk(15, {idle_hours('job_name', TEAM)})"},
                "h",
                "bargauge",
                description="With a utilization below 5 %.",
                thresholds=((None, "green"), (1, "orange"), (8, "red")),
            ),
            Panel("Devices held", {"{{job_name}}": f"sum by(job_name)({selected(ALLOCATED, TEAM)})"}, stacked=True),
            Panel(
                "Use of the quota",
                {
                    "{{namespace}} {{resource}}": (
                        f'max by(namespace,resource)(kube_resourcequota{{{TEAM},type="used",{EXTENDED}}})'
                        f'/(max by(namespace,resource)(kube_resourcequota{{{TEAM},type="hard"}})>0)'
                    )
                },
                "percentunit",
                maximum=1,
                limit=0.9,
            ),
        ),
        {"namespace": ALLOCATED},
    ),
    Page(
        "job",
        "GPU job",
        "One job: utilization, memory, power and temperature of each of its devices, and its network.",
        (
            Panel("Devices", {"devices": f"sum({selected(ALLOCATED, TEAM, JOB)})"}, kind="stat", width=4, height=4),
            Panel(
                "Utilization",
                {"utilization": f"avg({measured('utilization', TEAM, JOB)})"},
                "percentunit",
                "stat",
                4,
                4,
                thresholds=UTIL,
            ),
            Panel(
                "Tensor cores",
                {"efficiency": f"avg({measured('tensor_activity', TEAM, JOB)})"},
                "percentunit",
                "stat",
                4,
                4,
                "What was used of the tensor cores: how efficient the program is.",
            ),
            Panel("Most memory", {"memory": f"max({measured('memory_used', TEAM, JOB)})"}, "bytes", "stat", 4, 4),
            Panel("GPU-hours", {"held": hours("", TEAM, JOB)}, "h", "stat", 4, 4),
            Panel(
                "Waited for devices",
                {"waited": f"max({ASKED.queue_wait()} and on(namespace,job_name) {selected(POD_INFO, TEAM, JOB)})"},
                "s",
                "stat",
                4,
                4,
            ),
            Panel(
                "Utilization by device",
                {"{{pod}} {{UUID}} {{GPU_I_ID}}": measured("utilization", TEAM, JOB)},
                "percentunit",
                maximum=1,
            ),
            Panel(
                "Tensor cores by device",
                {"{{pod}} {{UUID}} {{GPU_I_ID}}": measured("tensor_activity", TEAM, JOB)},
                "percentunit",
                maximum=1,
            ),
            Panel("Memory by device", {"{{pod}} {{UUID}} {{GPU_I_ID}}": measured("memory_used", TEAM, JOB)}, "bytes"),
            Panel("Power by pod", {"{{pod}}": f"sum by(pod)({measured('power', TEAM, JOB)})"}, "watt"),
            Panel(
                "Temperature by device",
                {"{{pod}} {{UUID}}": measured("temperature", TEAM, JOB)},
                "celsius",
                limit=85,
            ),
            Panel(
                "Network by pod",
                {
                    f"{{{{pod}}}} {word}": (
                        f"sum by(namespace,pod)(rate(container_network_{direction}_bytes_total{{{TEAM}}}[5m]))"
                        f"*on(namespace,pod) group_left(job_name) {selected(POD_INFO, TEAM, JOB)}"
                    )
                    for word, direction in (("in", "receive"), ("out", "transmit"))
                },
                "Bps",
                description="What goes over RDMA is missing: nothing tells it by pod.",
            ),
        ),
        {"namespace": POD_INFO, "job": POD_INFO},
    ),
    Page(
        "gpu-health",
        "GPU health",
        "Temperature, power and errors of each device, and nodes that are not ready.",
        (
            Panel(
                "Hottest device",
                {"temperature": f"max({over('temperature')})"},
                "celsius",
                "stat",
                6,
                4,
                thresholds=HOT,
            ),
            Panel("Devices that are measured", {"devices": f"count({over('temperature')})"}, "short", "stat", 6, 4),
            Panel(
                "Firing alerts",
                {"alerts": f"count({FIRING}) or vector(0)"},
                "short",
                "stat",
                6,
                4,
                thresholds=((None, "green"), (1, "red")),
            ),
            Panel("Power", {"power": f"sum({over('power')})"}, "watt", "stat", 6, 4),
            Panel(
                "Hottest devices",
                {"{{hostname}} {{gpu}} {{modelName}}": f"topk(8, {over('temperature')})"},
                "celsius",
                "bargauge",
                maximum=100,
                thresholds=HOT,
            ),
            Panel(
                "Firing alerts by name",
                {"{{alertname}}": f"sum by(alertname)({FIRING}) or on() {NONE}"},
                kind="timeseries",
            ),
            Panel(
                "Temperature by node",
                {"{{hostname}}": f"max by(hostname)({over('temperature')})"},
                "celsius",
                limit=85,
            ),
            Panel("Power by node", {"{{hostname}}": f"sum by(hostname)({over('power')})"}, "watt"),
            Panel(
                "Utilization by node",
                {"{{hostname}}": f"avg by(hostname)({over('utilization')})"},
                "percentunit",
                maximum=1,
            ),
            Panel(
                "Memory in use by node",
                {"{{hostname}}": f"sum by(hostname)({over('memory_used')})/sum by(hostname)({over('memory_total')})"},
                "percentunit",
                maximum=1,
            ),
        ),
    ),
)


def built(page: Page) -> dict[str, Any]:
    """The JSON of a dashboard."""
    from grafana_foundation_sdk.builders.dashboard import Dashboard, DatasourceVariable, QueryVariable
    from grafana_foundation_sdk.cog.encoder import JSONEncoder
    from grafana_foundation_sdk.models.common import TimeZoneBrowser
    from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh

    builder = (
        Dashboard(page.title)
        .uid(f"gpuctl-{page.name}")
        .description(page.description)
        .tags(["gpuctl"])
        .refresh("1m")
        .time("now-6h", "now")
        .timezone(TimeZoneBrowser)
        .with_variable(DatasourceVariable("datasource").label("Data source").type("prometheus"))
    )
    source = DataSourceRef(type_val="prometheus", uid="${datasource}")
    for name, series in (page.variables or {}).items():
        label = {"job": "job_name"}.get(name, name)
        within = f"{{{TEAM}}}" if name == "job" else ""
        variable = (
            QueryVariable(name)
            .label(name.capitalize())
            .query(f"label_values({series}{within},{label})")
            .datasource(source)
            .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
            .include_all(name != "job")
            .multi(name != "job")
        )
        builder = builder.with_variable(variable)
    for panel in page.panels:
        builder = builder.with_panel(_panel(panel, source))
    found: dict[str, Any] = json.loads(JSONEncoder(sort_keys=True).encode(builder.build()))
    return found


def _panel(panel: Panel, source: Any) -> Any:
    from grafana_foundation_sdk.builders import bargauge, stat, timeseries
    from grafana_foundation_sdk.builders.common import ReduceDataOptions, StackingConfig
    from grafana_foundation_sdk.builders.dashboard import ThresholdsConfig
    from grafana_foundation_sdk.builders.prometheus import Dataquery
    from grafana_foundation_sdk.models.common import StackingMode, VizOrientation
    from grafana_foundation_sdk.models.dashboard import Threshold, ThresholdsMode

    kinds: dict[str, Any] = {"stat": stat.Panel, "bargauge": bargauge.Panel, "timeseries": timeseries.Panel}
    limits = [*panel.thresholds, *([(panel.limit, "red")] if panel.limit else [])]
    steps = [Threshold(color=color, value=value) for value, color in limits]
    builder = (
        kinds[panel.kind]()
        .title(panel.title)
        .datasource(source)
        .unit(panel.unit)
        .span(panel.width)
        .height(panel.height)
        .min(0)
        .thresholds(ThresholdsConfig().mode(cast(Any, ThresholdsMode.ABSOLUTE)).steps(steps))
    )
    builder = builder.description(panel.description) if panel.description else builder
    builder = builder.max(panel.maximum) if panel.maximum is not None else builder
    if panel.kind == "timeseries":
        builder = builder.fill_opacity(60 if panel.stacked else 10).line_width(1)
        if panel.stacked:
            builder = builder.stacking(StackingConfig().mode(cast(Any, StackingMode.NORMAL)))
        if panel.limit:
            from grafana_foundation_sdk.builders.common import GraphThresholdsStyleConfig
            from grafana_foundation_sdk.models.common import GraphThresholdsStyleMode

            style = GraphThresholdsStyleConfig().mode(cast(Any, GraphThresholdsStyleMode.LINE))
            builder = builder.thresholds_style(style)
    else:
        builder = builder.reduce_options(ReduceDataOptions().calcs(["lastNotNull"]))
        if panel.kind == "bargauge":
            builder = builder.orientation(VizOrientation.HORIZONTAL)
    for letter, (legend, expression) in zip("ABCDEF", panel.expressions.items(), strict=False):
        # Over a range, what looks back on the whole range would be asked for every point.
        is_instant = panel.kind == "bargauge" or "$__range" in expression
        query = Dataquery().expr(expression).legend_format(legend).ref_id(letter)
        builder = builder.with_target(query.instant() if is_instant else query)
    return builder


def texts() -> dict[str, str]:
    """The files by name."""
    return {f"{page.name}.json": json.dumps(built(page), indent=1, sort_keys=True) + "\n" for page in PAGES}


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in texts().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
