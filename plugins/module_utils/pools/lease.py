# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""One at a time: the Lease that a run holds while it changes which node is in which pool.

Pools are many objects (a ConfigMap each, labels on many nodes) and Kubernetes has no transactions. Two runs that write
overlapping pools at once, each node guarded by its own resourceVersion, could each win some nodes and lose others, and
undoing both would leave neither's pools. So all runs agree on one object, the Lease ``pools`` in ``gpuctl-system``:

1. A run reads the Lease *before* it reads nodes and ConfigMaps, and plans. (Where there is no Lease yet, it makes one,
   reads everything again, and gives up if that makes it another plan.)
2. It takes the Lease by a patch that is guarded by the resourceVersion read in step 1. Taking and returning it both
   change the version. So taking it proves at once that nobody else is writing, and that nobody has written since
   before our reading: what was planned on is what is there.
3. It writes, and returns the Lease. A run that could not take it has written nothing. It waits until the other one is
   done and looks again: if the pools are by now what it wanted too, it is done; if its plan is still the same (the
   other one was at other pools), it tries again; else it fails and says who was faster.

Whoever holds it renews it every few seconds. A run that is killed does not: when the Lease has stayed unchanged for
``ABANDONED_AFTER`` seconds *by the observer's own clock* (as client-go's leader election does, so that clocks of hosts
need not agree), it is taken away and everything read anew, which also repairs what the killed run left half done. A
holder that was merely frozen for so long notices before its next write, and its patches under way are still guarded
node by node.

People with kubectl do not know of the Lease. Against them, the guards of the nodes' patches help (node_writer.py): the
run that loses undoes what it has written. A gpuctl_node_label task that sets the pool label takes the Lease as well.
"""

from __future__ import annotations

import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ..kube.client import Client
from ..kube.errors import ApiError, KubeError
from ..kube.resources import LEASE, NAMESPACE
from ..kube.times import now_as_text
from ..labels import CHANGED_BY, FIELD_MANAGER, MANAGED_BY, POOLS_LEASE, SYSTEM_NAMESPACE
from ..wait.polling import backoff, poll

ABANDONED_AFTER = 15.0  # seconds
_RENEWED_EVERY = 4.0
_PATIENCE = 120.0  # seconds to wait for another run to be done
_DELAY = 0.25


class Overtaken(KubeError):
    """Another run has changed the pools since they were read; nothing was written by this one."""


class Busy(KubeError):
    """Another run has been changing the pools for longer than this one was ready to wait."""


class Abandoned(KubeError):
    """The Lease was taken from a run that does not live any more: read everything anew and try again."""


class LeaseLost(KubeError):
    """This run was silent for so long that another one has taken its Lease."""


class PoolLease:
    """The right to change pools, for one run."""

    def __init__(self, client: Client, sleep: Callable[[float], None] = time.sleep) -> None:
        self._client = client
        self._sleep = sleep
        self._holder = f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"
        self._lease: dict[str, Any] | None = None
        self._lost = threading.Event()

    def observe(self) -> bool:
        """Note the version that the following readings are not older than. False: there is no Lease yet."""
        self._lease = self._read()
        return self._lease is not None

    def establish(self) -> None:
        """Make the Lease, and the namespace that it is in, when they are missing. Observe again after it."""
        try:
            if self._client.get(NAMESPACE, None, SYSTEM_NAMESPACE) is None:
                self._client.apply(system_namespace())
        except ApiError as refusal:
            if not refusal.is_forbidden:
                raise
            # Who may not look at namespaces may still be allowed everything in this one.
        self._client.apply({"apiVersion": LEASE.api_version, "kind": LEASE.kind, "metadata": _metadata(POOLS_LEASE)})

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the Lease during the block. Raises Overtaken, Abandoned or Busy when that cannot be."""
        self._take()
        done = threading.Event()
        renewing = threading.Thread(target=self._keep, args=(done,), daemon=True)
        renewing.start()
        try:
            yield
        finally:
            done.set()
            renewing.join()
            self._return()

    def overtaken(self) -> Overtaken:
        """What to say to a run that finds other pools than it had read.

        Read anew: who was faster may have taken the Lease after it was observed.
        """
        return overtaken_by(_last_holder_of(self._read_quietly() or {}))

    def check(self) -> None:
        """Raise LeaseLost when the Lease is not ours any more."""
        if self._lost.is_set():
            raise LeaseLost(
                "this run was silent for too long, and another one has begun to change the pools; what was not "
                "written yet was left alone. Run the task again."
            )

    def _read(self) -> dict[str, Any] | None:
        return self._client.get(LEASE, SYSTEM_NAMESPACE, POOLS_LEASE)

    def _take(self) -> None:
        lease = self._lease or {}
        holder = _holder_of(lease)
        if not holder:
            try:
                self._lease = self._patch(lease, holder=self._holder)
                return
            except ApiError as refusal:
                if refusal.status not in (404, 409):  # deleted by someone, or changed
                    raise
            now = self._read() or {}
            if _holder_of(now) == self._holder:  # The patch arrived, its answer did not.
                self._lease = now
                return
            lease, holder = now, _holder_of(now)
        self._await_end(lease, holder or _last_holder_of(lease))

    def _await_end(self, lease: dict[str, Any], holder: str) -> None:
        """Wait until the other run is done, or found to be dead. Always raises."""
        unchanged_since = time.monotonic()

        def is_returned() -> bool:
            nonlocal lease, holder, unchanged_since
            now = self._read() or {}
            version = lease.get("metadata", {}).get("resourceVersion")
            if now.get("metadata", {}).get("resourceVersion") != version:
                unchanged_since = time.monotonic()
                holder = _holder_of(now) or holder
            elif time.monotonic() - unchanged_since > ABANDONED_AFTER:
                self._take_away(now)
                raise Abandoned(f"{_described(holder)} has not finished its change of the pools")
            lease = now
            return not _holder_of(now)

        delays = backoff(_DELAY)
        if not _holder_of(lease) or poll(is_returned, _PATIENCE, delays, immediate=False, sleep=self._sleep):
            raise overtaken_by(holder)
        raise Busy(
            f"another run is changing the pools: {_described(holder)}. This run waited for {_PATIENCE:.0f} s and "
            f"changed nothing; run it again later."
        )

    def _take_away(self, lease: dict[str, Any]) -> None:
        try:
            self._patch(lease, holder=None)
        except ApiError as refusal:
            if refusal.status != 409:  # else somebody did it before us, or its holder lives after all
                raise

    def _keep(self, done: threading.Event) -> None:
        while not done.wait(_RENEWED_EVERY):
            try:
                self._lease = self._patch(self._lease or {}, holder=self._holder)
            except ApiError as refusal:
                now = self._read_quietly() if refusal.status == 409 else None
                if now is None or _holder_of(now) != self._holder:
                    self._lost.set()
                    return
                self._lease = now
            except KubeError:
                self._lost.set()
                return

    def _return(self) -> None:
        """Best effort: a Lease that could not be returned is found abandoned by the next run."""
        if self._lost.is_set():
            return
        try:
            self._patch(self._lease or {}, holder=None)
        except KubeError:
            return

    def _read_quietly(self) -> dict[str, Any] | None:
        try:
            return self._read()
        except KubeError:
            return None

    def _patch(self, lease: dict[str, Any], *, holder: str | None) -> dict[str, Any]:
        now = now_as_text() if holder else None
        seconds = math.ceil(ABANDONED_AFTER) if holder else None
        # For people: nothing here decides by these times.
        spec = {"holderIdentity": holder, "renewTime": now, "leaseDurationSeconds": seconds}
        if _holder_of(lease) != holder:
            spec["acquireTime"] = now
        # Stays when the Lease is returned, so that who comes too late can be told who was faster.
        note = {"metadata": {"annotations": {CHANGED_BY: holder}}} if holder else {}
        return self._client.merge_patch(LEASE, lease["metadata"], {"spec": spec, **note})


def overtaken_by(holder: str) -> Overtaken:
    return Overtaken("another run changed the pools at the same time" + (f": {_described(holder)}" if holder else ""))


def system_namespace() -> dict[str, Any]:
    """The namespace in which pools are declared."""
    metadata = {"name": SYSTEM_NAMESPACE, "labels": {MANAGED_BY: FIELD_MANAGER}}
    return {"apiVersion": NAMESPACE.api_version, "kind": NAMESPACE.kind, "metadata": metadata}


def _metadata(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": {MANAGED_BY: FIELD_MANAGER}}


def _holder_of(lease: dict[str, Any]) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _last_holder_of(lease: dict[str, Any]) -> str:
    annotations = lease.get("metadata", {}).get("annotations") or {}
    return _holder_of(lease) or str(annotations.get(CHANGED_BY) or "")


def _described(holder: str) -> str:
    parts = holder.split("/")
    return f"process {parts[1]} on {parts[0]}" if len(parts) > 1 else holder
