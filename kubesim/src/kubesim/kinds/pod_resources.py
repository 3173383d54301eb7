# SPDX-License-Identifier: BSD-2-Clause
"""What a pod as a whole requests and is limited to.

Source: staging/src/k8s.io/component-helpers/resource/helpers.go (PodRequests, PodLimits).
"""

from __future__ import annotations

from typing import Any

from kubesim.quantity import Quantity, parse_list

Amounts = dict[str, Quantity]


def pod_requests(spec: dict[str, Any]) -> Amounts:
    return _total(spec, "requests")


def pod_limits(spec: dict[str, Any]) -> Amounts:
    return _total(spec, "limits")


def _total(spec: dict[str, Any], kind: str) -> Amounts:
    """Containers run together and add up; init containers run before them, one at a time, beside earlier sidecars."""
    total: Amounts = {}
    for container in spec.get("containers") or ():
        _add(total, _of(container, kind))
    sidecars: Amounts = {}
    most: Amounts = {}
    for container in spec.get("initContainers") or ():
        amounts = _of(container, kind)
        if container.get("restartPolicy") == "Always":
            _add(total, amounts)
            _add(sidecars, amounts)
            amounts = dict(sidecars)
        else:
            _add(amounts, sidecars)
        _raise(most, amounts)
    _raise(total, most)
    for name, amount in parse_list((spec.get("resources") or {}).get(kind)).items():
        total[name] = amount  # said for the pod as a whole
    if overhead := spec.get("overhead"):
        for name, amount in parse_list(overhead).items():
            if kind == "requests" or name in total:
                total[name] = total[name] + amount if name in total else amount
    return total


def _of(container: dict[str, Any], kind: str) -> Amounts:
    return parse_list((container.get("resources") or {}).get(kind))


def _add(total: Amounts, more: Amounts) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def _raise(total: Amounts, other: Amounts) -> None:
    for name, amount in other.items():
        if name not in total or total[name] < amount:
            total[name] = amount
