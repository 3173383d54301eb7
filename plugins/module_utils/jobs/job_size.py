# SPDX-License-Identifier: BSD-2-Clause
"""What a job requests, as results show it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..accelerators.catalog import MEMORY, catalog, whole_devices
from ..cluster.nodes import claimed_devices
from ..cluster.pod_requests import amount_of
from ..cluster.related import main_container
from ..cluster.status import pods_wanted
from ..labels import SWEEP


def size_row(workload: Mapping[str, Any]) -> dict[str, Any]:
    """How many pods a workload wants, live or desired, with what each, and the sweep that it belongs to."""
    template = workload["spec"]["template"]
    requests = (main_container(template["spec"]["containers"]).get("resources") or {}).get("requests") or {}
    amounts = {name: amount_of(name, quantity) for name, quantity in requests.items() if "/" in name}
    amounts |= claimed_devices((template.get("metadata") or {}).get("annotations") or {})
    return {
        "pods_wanted": pods_wanted(workload),
        "gpu": whole_devices(amounts),
        "gpu_share": _share_memory(amounts),
        "accelerators": _accelerator_rows(amounts),
        "sweep": (workload["metadata"].get("labels") or {}).get(SWEEP),
    }


def _share_memory(amounts: Mapping[str, int]) -> str | None:
    """The memory of a shared device, as in a manifest."""
    found = (row.quantity(amount) for row, amount in catalog().rows_in(amounts) if row.kind == MEMORY)
    return next(found, None)


def _accelerator_rows(amounts: Mapping[str, int]) -> list[dict[str, Any]]:
    """What each pod requests of accelerators, with the same keys as the rows of nodes."""
    return [{**row.columns, "amount": amount} for row, amount in catalog().rows_in(amounts)]
