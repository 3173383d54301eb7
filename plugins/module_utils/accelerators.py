# SPDX-License-Identifier: BSD-2-Clause
"""What a GPU is: one row for each extended resource that jobs request, nodes offer and quotas limit. Pure.

Everything that requests, counts, limits or names GPUs goes through this table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .quantity import ceil_gib, floor_gib


@dataclass(frozen=True)
class Accelerator:
    """An extended resource of nodes, and its field in manifests. Its amounts are whole numbers of ``unit``.

    A field whose value names a resource has a row for each value; ``request`` returns 0 for the other values.
    """

    resource: str
    field: str  # of `resources` in jobs and of the limits in quotas (manifest/models.py)
    documented: str  # the spelling of the field in manifests
    taint: str  # the key of the taint that keeps other pods off its nodes
    noun: str  # plural, where `unit` is empty
    singular: str = ""
    unit: str = ""  # of a share's amounts; the field's value then is a quantity
    is_whole_device: bool = True  # counts as a GPU in sums, and gets a process of its own
    in_quotas: bool = True  # whether quotas have the field too
    request: Callable[[Any], int] = int  # the field's value in a job -> what the container requests
    limit: Callable[[Any], int] = int  # the field's value in a quota -> the limit

    @property
    def quota_key(self) -> str:
        """The key of a ResourceQuota.

        Of extended resources Kubernetes only counts ``requests.``; it accepts the bare name and ignores it
        (pkg/quota/v1/evaluator/core/pods.go, podComputeUsageHelper).
        """
        return f"requests.{self.resource}"

    def text(self, amount: int) -> str:
        """``1 GPU``, ``4 GPUs``, ``5Gi of shared GPU memory``."""
        if self.unit:
            return f"{amount}{self.unit} of {self.noun}"
        return f"{amount} {self.singular if amount == 1 else self.noun}"


_ROWS = (
    Accelerator("nvidia.com/gpu", field="gpu", documented="gpu", taint="nvidia.com/gpu", noun="GPUs", singular="GPU"),
    # Of the gpushare device plugin.
    Accelerator(
        "aliyun.com/gpu-mem",
        field="gpu_share",
        documented="gpu-share",
        taint="nvidia.com/gpu",
        noun="shared GPU memory",
        unit="Gi",
        is_whole_device=False,
        request=ceil_gib,
        limit=floor_gib,  # Jobs request whole GiB, so a fraction could not be used.
    ),
)
ACCELERATORS: Mapping[str, Accelerator] = {row.resource: row for row in _ROWS}
"""Resource -> row. A job that sets several fields gets the first."""


def requested(resources: object) -> list[tuple[Accelerator, int]]:
    """The rows that the block ``resources`` of a job sets, with their amounts. The job gets the first."""
    values = ((row, getattr(resources, row.field)) for row in ACCELERATORS.values())
    amounts = ((row, int(row.request(value))) for row, value in values if value is not None)
    return [(row, amount) for row, amount in amounts if amount]


def container_requests(resources: object) -> dict[str, int]:
    """What the container of a job requests: resource -> amount. One at most: two would be two different cards."""
    return {row.resource: amount for row, amount in requested(resources)[:1]}


def whole_devices(amounts: Mapping[str, int]) -> int:
    """The number of GPUs in amounts of resources."""
    return sum(amounts.get(row.resource, 0) for row in ACCELERATORS.values() if row.is_whole_device)
