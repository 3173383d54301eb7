# SPDX-License-Identifier: BSD-2-Clause
"""Recording and alert rules as Prometheus reads them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from .history import EVALUATED, LABELS, STEP, known, known_record, peak_record, peaks
from .promql import (
    ALLOCATABLE,
    ALLOCATED,
    FREE,
    JOB,
    JOB_UTILIZATION,
    MEASURES,
    POD_INFO,
    UTILIZATION,
    Queries,
    Source,
)

Rule = dict[str, Any]
Group = dict[str, Any]


def recording_rules(plain: Queries) -> list[Rule]:
    """The recorded series. Those of a group are evaluated in their order, so later ones build on earlier ones."""
    recorded = replace(plain, source=Source.RULES)
    return [{"record": name, "expr": expression} for name, expression in _records(plain, recorded) if expression]


def _records(plain: Queries, recorded: Queries) -> Iterator[tuple[str, str]]:
    yield POD_INFO, plain.pod_info()
    joined = replace(plain, has_pod_info=True)
    for measure in MEASURES.values():
        yield measure.record, joined.measured(measure.name)
        yield measure.device_record, plain.of_devices(measure.name)
    yield JOB_UTILIZATION, f"avg by({','.join(JOB)})({recorded.measured(UTILIZATION.name)})"
    yield ALLOCATED, joined.allocated()
    yield ALLOCATABLE, plain.allocatable()
    yield FREE, plain.free()


def history_group(plain: Queries) -> Group:
    """The rules. What they record for is not known until they have been evaluated, which is recorded last."""
    recorded = replace(plain, source=Source.RULES)
    found = {
        **{peak_record(name): text for name, text in peaks(recorded, f"{2 * STEP}s").items()},
        **{known_record(name): text for name, text in known(recorded, f"{STEP - 1}s").items()},
        peak_record("pods"): f"max by({','.join(LABELS['pods'])})(max_over_time({POD_INFO}[{2 * STEP}s]))",
        EVALUATED: "vector(time())",
    }
    rules = [{"record": name, "expr": text} for name, text in found.items()]
    return {"name": "runwhere-gpuctl.history", "interval": f"{STEP // 60}m", "rules": rules}
