# SPDX-License-Identifier: BSD-2-Clause
"""Read and write the histories (see run_history.py): the newest ConfigMap of a namespace, and older ones that are full.

A write is a patch of a few keys, so that concurrent runs keep each other's, and it tests whose the ConfigMap is. A full
ConfigMap hands its older half on: that half is created elsewhere before it is removed, so a run that is killed in
between leaves it twice, never nowhere, and what another run has written meanwhile stays where it is.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from ...kube.client import Client
from ...kube.errors import ApiError, KubeError
from ...kube.resources import CONFIG_MAP
from ...labels import FIELD_MANAGER, HISTORY, HISTORY_LIMITS, HISTORY_OF, MANAGED, MANAGED_BY, is_managed
from .config_maps import new_config_map, read_config_map
from .run_history import (
    HISTORIES,
    ROLL_AT,
    HistoryLimits,
    PastRun,
    oldest_half,
    read_limits,
    size_of,
    written_in_parts,
)

Object = Mapping[str, Any]

_ATTEMPTS = 10  # Each conflict is a write of another run.
_TIME = "%Y%m%d%H%M%S"
_LARGEST = 1024 * 1024  # bytes, as size_of counts them: more than the API server does


class NotTheHistory(KubeError):
    """A ConfigMap that is not ours has the name of the history; nothing was written to it."""


def write_history(client: Client, namespace: str, keys: Mapping[str, str | None]) -> None:
    """Add to the history of a namespace; None removes a key of the newest ConfigMap. Raises KubeError."""
    for part in written_in_parts(keys):
        written = _write_part(client, namespace, part)
        if size_of(written.get("data") or {}) > ROLL_AT:
            _roll(client, namespace, written)


def set_limits(client: Client, namespace: str, limits: HistoryLimits) -> None:
    """Record how much is kept, for the task that writes next."""
    metadata = {"name": HISTORY, "namespace": namespace}
    client.merge_patch(CONFIG_MAP, metadata, {"metadata": {"annotations": {HISTORY_LIMITS: str(limits)}}})


def prune(client: Client, namespace: str, config_maps: Iterable[Object], limits: HistoryLimits, now: datetime) -> int:
    """Delete the older ConfigMaps that are too old or too many, and remove old runs from the newest one. Returns the
    number of ConfigMaps that were deleted.

    One is too old when its time of creation is: all that it has was written before.
    """
    cutoff = (now - timedelta(days=limits.days)).strftime(_TIME)
    older = sorted(
        (each["metadata"] for each in config_maps if each["metadata"]["name"] != HISTORY),
        key=lambda metadata: str(metadata["name"]),
        reverse=True,
    )
    most = limits.mebibytes * 1024 * 1024 // (ROLL_AT // 2)
    surplus = [each for number, each in enumerate(older) if number >= most - 2 or _time_of(each["name"]) < cutoff]
    for metadata in surplus:
        client.delete(CONFIG_MAP, metadata, propagation="Background")
    return len(surplus)


def outdated_keys(
    config_maps: Iterable[Object],
    runs: Mapping[str, PastRun],
    limits: HistoryLimits,
    now: datetime,
    live: Collection[str] = (),
) -> dict[str, None]:
    """The keys of the newest ConfigMap whose runs ended too long ago.

    ``runs`` are what the ConfigMaps have, ``live`` the uids of workloads that are still there, of which everything
    would be written again.
    """
    cutoff = (now - timedelta(days=limits.days)).timestamp()
    newest = (each.get("data") or {} for each in config_maps if each["metadata"]["name"] == HISTORY)
    old = {uid for uid, run in runs.items() if run.has_ended and uid not in live and run.last_known < cutoff}
    keys = (key for data in newest for key in data)
    return {key: None for key in keys if key.partition(".")[0] in old}


def _write_part(client: Client, namespace: str, keys: Mapping[str, str | None]) -> dict[str, Any]:
    had_room = False
    for attempt in range(_ATTEMPTS):
        try:
            return client.json_patch(CONFIG_MAP, namespace, HISTORY, _operations(keys))
        except ApiError as error:
            if error.status == 404 and error.reason == "NotFound" and not error.is_missing_namespace:
                if (created := client.create(_new_history(HISTORY, namespace, keys))) is not None:
                    return created
                continue
            if error.status not in (409, 413, 422) or attempt == _ATTEMPTS - 1:
                raise
            if error.status == 409:  # The server has tried five times itself (apiserver, handlers/patch.go).
                continue
            head = _head(client, namespace)
            if head and not is_managed(head):
                raise NotTheHistory(
                    f"a ConfigMap {HISTORY} is there that is not the collection's (it lacks the label {MANAGED}). "
                    f"Rename or delete it."
                ) from None
            if head and not head.get("data"):
                return client.merge_patch(CONFIG_MAP, {"name": HISTORY, "namespace": namespace}, {"data": keys})
            has_room = size_of({**head.get("data", {}), **keys}) <= _LARGEST
            if has_room:
                if had_room:  # So that is not why.
                    raise
                had_room = True  # Perhaps another run has just made it.
            elif not _roll(client, namespace, head):
                raise
    raise AssertionError("unreachable")  # pragma: no cover


def _operations(keys: Mapping[str, str | None]) -> list[dict[str, Any]]:
    """A JSON patch that fails for a ConfigMap that is not ours. Keys that are not there cannot be removed, so they are
    added before."""
    label = MANAGED_BY.replace("/", "~1")
    operations: list[dict[str, Any]] = [{"op": "test", "path": f"/metadata/labels/{label}", "value": FIELD_MANAGER}]
    for key, text in keys.items():
        operations.append({"op": "add", "path": f"/data/{key}", "value": text or ""})
        if text is None:
            operations.append({"op": "remove", "path": f"/data/{key}"})
    return operations


def _head(client: Client, namespace: str) -> dict[str, Any]:
    """The newest ConfigMap; empty if there is none."""
    return read_config_map(client, namespace, HISTORY) or {}


def _roll(client: Client, namespace: str, head: dict[str, Any]) -> bool:
    """Hand the older half of the newest ConfigMap on to one of its own. False: there is nothing to hand on."""
    now = datetime.now(timezone.utc)
    moved = oldest_half(head.get("data") or {})
    if not moved:
        return False
    client.create(_new_history(f"{HISTORY}-{now.strftime(_TIME)}-{secrets.token_hex(3)}", namespace, moved))
    for _attempt in range(_ATTEMPTS):
        data = head.get("data") or {}
        removed = {key: None for key, text in moved.items() if data.get(key) == text}
        try:
            client.merge_patch(CONFIG_MAP, head["metadata"], {"data": removed})
            break
        except ApiError as error:
            if error.status != 409:
                raise
        head = client.get(CONFIG_MAP, namespace, HISTORY) or {}
        if not head:
            break
    others = client.list_objects(CONFIG_MAP, namespace, labels=HISTORIES, metadata_only=True)
    prune(client, namespace, others, read_limits(head), now)
    return True


def _new_history(name: str, namespace: str, data: Mapping[str, str | None]) -> dict[str, Any]:
    return new_config_map(name, namespace, data, **{HISTORY_OF: "runs"})


def _time_of(name: str) -> str:
    """When an older ConfigMap was made; none for one that we have not named, which stays."""
    text = name.removeprefix(f"{HISTORY}-").partition("-")[0]
    return text if len(text) == 14 and text.isdecimal() else "9"
