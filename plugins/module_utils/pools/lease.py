# SPDX-License-Identifier: BSD-2-Clause
"""The Lease that a run holds while it changes which node is in which pool.

Pools are many objects (a ConfigMap each, labels on many nodes), and Kubernetes has no transactions. Two concurrent runs
with overlapping pools, each guarded node by node, could each win some nodes and lose others. So all runs agree on one
object, the Lease ``pools`` in ``gpuctl-system``:

1. A run observes the Lease *before* it reads nodes and ConfigMaps, and plans.
2. It acquires the Lease by a patch guarded by the observed resourceVersion. Acquiring and releasing both change the
   version, so a successful patch shows that nobody has written since step 1: the plan still fits.
3. It writes, and releases the Lease.

A run that cannot acquire the Lease has written nothing, and waits for the holder to finish; guarded.py plans again.
The holder renews the Lease. A killed run does not: once the Lease has stayed unchanged for ``ABANDONED_AFTER`` seconds
*by the observer's own clock* (as in client-go's leader election: the clocks of hosts need not agree), the observer
releases it. A holder that was only suspended notices before its next write.

kubectl ignores the Lease. Against its users, the guarded patches of engine/node_writer.py help.
"""

from __future__ import annotations

import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from ..kube.client import Client
from ..kube.errors import ApiError, ConcurrentChange, KubeError
from ..kube.resources import LEASE, NAMESPACE
from ..kube.times import now_as_text
from ..labels import CHANGED_BY, FIELD_MANAGER, MANAGED_BY, POOLS_LEASE, SYSTEM_NAMESPACE
from ..wait.polling import backoff, poll

ABANDONED_AFTER = 15.0  # seconds
_RENEWED_EVERY = 4.0
_PATIENCE = 120.0  # seconds to wait for another run to be done
_DELAY = 0.25


class LeaseTimeout(KubeError):
    """Another run has held the Lease for longer than this run waits; this run has written nothing."""


class AbandonedLease(KubeError):
    """The Lease was released for a holder that stopped renewing it: read everything again and retry."""


class LeaseLost(KubeError):
    """Another run has released this run's Lease, because this run did not renew it in time."""


class PoolLease:
    """The lock on pools, for one run."""

    def __init__(self, client: Client, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._sleep = sleep
        self._holder = f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"
        self._lease: dict[str, Any] | None = None
        self._lost = threading.Event()

    def observe(self) -> bool:
        """Record the version that everything read afterwards is at least as new as. False: the Lease is missing."""
        self._lease = self._read()
        return self._lease is not None

    def create(self) -> None:
        """Create the Lease, and its namespace if that is missing. Observe again afterwards."""
        try:
            if self._client.get(NAMESPACE, None, SYSTEM_NAMESPACE) is None:
                self._client.apply(system_namespace())
        except ApiError as error:
            if not error.is_forbidden:  # The permissions may be limited to this one namespace.
                raise
        metadata = {"name": POOLS_LEASE, "namespace": SYSTEM_NAMESPACE, "labels": {MANAGED_BY: FIELD_MANAGER}}
        self._client.apply({"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": metadata})

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the Lease during the block. Raises ConcurrentChange, AbandonedLease or LeaseTimeout on entry."""
        self._acquire()
        done = threading.Event()
        renewing = threading.Thread(target=self._renew, args=(done,), daemon=True)
        renewing.start()
        try:
            yield
        finally:
            done.set()
            renewing.join()
            self._release()

    def last_change(self) -> ConcurrentChange:
        """The error for a run that finds other pools than it has read; names the run that changed them.

        Reads the Lease again: the other run may have acquired it after ``observe``.
        """
        return _changed_by(_last_holder_of(self._read_quietly()))

    def check(self) -> None:
        """Raise LeaseLost if this run no longer holds the Lease."""
        if self._lost.is_set():
            raise LeaseLost(
                "this run did not renew the Lease for pools in time, and another run is changing the pools. Nothing "
                "more was written. Run the task again."
            )

    def _read(self) -> dict[str, Any] | None:
        return self._client.get(LEASE, SYSTEM_NAMESPACE, POOLS_LEASE)

    def _acquire(self) -> None:
        lease = self._lease or {}
        holder = _holder_of(lease)
        if not holder:
            try:
                self._lease = self._patch(lease, holder=self._holder)
                return
            except ApiError as error:
                if error.status not in (404, 409):  # deleted, or changed
                    raise
            now = self._read() or {}
            if _holder_of(now) == self._holder:  # The patch arrived, but its response was lost.
                self._lease = now
                return
            lease, holder = now, _holder_of(now)
        self._await_release(lease, holder or _last_holder_of(lease))

    def _await_release(self, lease: dict[str, Any], holder: str) -> None:
        """Wait until the other run releases the Lease or stops renewing it. Always raises."""
        unchanged_since = time.monotonic()

        def is_released() -> bool:
            nonlocal lease, holder, unchanged_since
            now = self._read() or {}
            version = lease.get("metadata", {}).get("resourceVersion")
            if now.get("metadata", {}).get("resourceVersion") != version:
                unchanged_since = time.monotonic()
                holder = _holder_of(now) or holder
            elif time.monotonic() - unchanged_since > ABANDONED_AFTER:
                self._release_abandoned(now)
                raise AbandonedLease(f"{_described(holder)} stopped renewing the Lease for pools")
            lease = now
            return not _holder_of(now)

        delays = backoff(_DELAY)
        if not _holder_of(lease) or poll(is_released, _PATIENCE, delays, immediate=False, sleep=self._sleep):
            raise _changed_by(holder)
        raise LeaseTimeout(
            f"another run is changing the pools: {_described(holder)}. Gave up after {_PATIENCE:.0f} s without "
            f"changing anything. Run the task again later."
        )

    def _release_abandoned(self, lease: dict[str, Any]) -> None:
        try:
            self._patch(lease, holder=None)
        except ApiError as error:
            if error.status != 409:  # Another run released it first, or its holder is alive after all.
                raise

    def _renew(self, done: threading.Event) -> None:
        while not done.wait(_RENEWED_EVERY):
            try:
                self._lease = self._patch(self._lease or {}, holder=self._holder)
            except KubeError as error:
                now = self._read_quietly() if isinstance(error, ApiError) and error.status == 409 else {}
                if _holder_of(now) != self._holder:
                    self._lost.set()
                    return
                self._lease = now

    def _release(self) -> None:
        """Best effort: the next run releases a Lease that this one could not."""
        if not self._lost.is_set():
            with suppress(KubeError):
                self._patch(self._lease or {}, holder=None)

    def _read_quietly(self) -> dict[str, Any]:
        with suppress(KubeError):
            return self._read() or {}
        return {}

    def _patch(self, lease: dict[str, Any], *, holder: str | None) -> dict[str, Any]:
        now = now_as_text() if holder else None
        seconds = math.ceil(ABANDONED_AFTER) if holder else None
        # For people: no decision depends on these times.
        spec = {"holderIdentity": holder, "renewTime": now, "leaseDurationSeconds": seconds}
        if _holder_of(lease) != holder:
            spec["acquireTime"] = now
        # Survives the release, so that a run that comes second can name the first.
        annotations = {"metadata": {"annotations": {CHANGED_BY: holder}}} if holder else {}
        return self._client.merge_patch(LEASE, lease["metadata"], {"spec": spec, **annotations})


def system_namespace() -> dict[str, Any]:
    """The namespace in which pools are declared."""
    metadata = {"name": SYSTEM_NAMESPACE, "labels": {MANAGED_BY: FIELD_MANAGER}}
    return {"apiVersion": NAMESPACE.api_version, "kind": NAMESPACE.kind, "metadata": metadata}


def _changed_by(holder: str) -> ConcurrentChange:
    by = f": {_described(holder)}" if holder else ""
    return ConcurrentChange(f"another run changed the pools at the same time{by}")


def _holder_of(lease: dict[str, Any]) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _last_holder_of(lease: dict[str, Any]) -> str:
    annotations = lease.get("metadata", {}).get("annotations") or {}
    return _holder_of(lease) or str(annotations.get(CHANGED_BY) or "")


def _described(holder: str) -> str:
    parts = holder.split("/")
    return f"process {parts[1]} on {parts[0]}" if len(parts) > 1 else holder
