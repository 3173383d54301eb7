# SPDX-License-Identifier: BSD-2-Clause
"""The Lease that a run holds while it changes which node is in which pool.

Pools are many objects (a ConfigMap each, labels on many nodes), and Kubernetes has no transactions. Two concurrent runs
with overlapping pools, each guarded node by node, could each win some nodes and lose others. So all runs agree on one
object, the Lease ``pools`` in ``gpuctl-system``:

1. A run observes the Lease *before* it reads nodes and ConfigMaps, and plans.
2. It acquires the Lease by a patch guarded by the observed resourceVersion. Acquiring and releasing both change the
   version, so a successful patch shows that no other run has written since step 1: the plan still fits.
3. It writes, and releases the Lease.

A run that cannot acquire the Lease has written nothing, and waits for the holder to finish; guarded.py plans again.
The holder renews the Lease. A killed run does not: once the Lease has stayed unchanged for ``ABANDONED_AFTER`` seconds
*by the observer's own clock* (as in client-go's leader election: the clocks of hosts need not agree), the observer
releases it.

A run that was only suspended must not write afterwards. Before each write it checks how long ago it renewed the Lease,
and renews it first if that is too long; the Lease shows by its holder and its count of acquisitions whether another run
was there meanwhile. A request that was already on its way then still arrives: it is guarded by the version of its
object, and if it hits an object that the other run did not change, pool_writer.py undoes it (``PLANNED_ON`` shows what
the other run had read).

kubectl ignores the Lease. Against its users, the guarded patches of engine/node_writer.py help.
"""

from __future__ import annotations

import math
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

from ..kube.client import Client
from ..kube.errors import ApiError, ConcurrentChange, KubeError
from ..kube.resources import CONFIG_MAP, LEASE, NAMESPACE, NODE
from ..kube.times import now_as_text
from ..labels import CHANGED_BY, FIELD_MANAGER, MANAGED_BY, PLANNED_ON, POOLS_LEASE, SYSTEM_NAMESPACE
from ..reporter import Report, silent
from ..wait.polling import backoff, poll

ABANDONED_AFTER = 15.0  # seconds
_TRUSTED = 2 / 3  # of ABANDONED_AFTER: how long a renewal is enough for a write (client-go: RenewDeadline 10 of 15 s)
_RENEWED_EVERY = 4.0
_PATIENCE = 120.0  # seconds to wait for another run to be done
_DELAY = 0.25
_ATTEMPTS = 3

Versions = Mapping[str, int]  # plural of a kind -> the newest resourceVersion among the objects that a plan is made on


class LeaseTimeout(KubeError):
    """Another run has held the Lease for longer than this run waits; this run has written nothing."""


class AbandonedLease(KubeError):
    """The Lease was released for a holder that stopped renewing it: read everything again and retry."""


class LeaseLost(KubeError):
    """Another run may have changed pools since this run last renewed its Lease."""


class Fence:
    """Lets a write pass, or not. This one lets all pass: for writes that need no Lease."""

    def check(self) -> None:
        """Called before each write. Raises LeaseLost, and KubeError if it is not known whether the Lease is lost."""

    def loss(self) -> LeaseLost | None:
        """The error if the Lease is lost, for a run that has failed or believes to be done."""
        return None


class PoolLease(Fence):
    """The lock on pools, for one run. ``progress`` reports which run this one waits for."""

    def __init__(
        self,
        client: Client,
        sleep: Callable[[float], None] = time.sleep,
        progress: Report = silent,
    ) -> None:
        self._client = client
        self._sleep = sleep
        self._progress = progress
        self._holder = f"{socket.gethostname()}/{os.getpid()}/{secrets.token_hex(4)}"
        self._lease: dict[str, Any] | None = None
        self._renewed = -math.inf  # when the latest successful renewal was sent
        self._loss: LeaseLost | None = None
        self._lock = threading.Lock()

    def observe(self) -> bool:
        """Record the version that everything read afterwards is at least as new as. False: the Lease is missing."""
        self._lease = self._read_lease()
        return self._lease is not None

    @property
    def planned_on(self) -> Versions:
        """What the run that acquired the observed Lease last had read."""
        return _parse_versions((self._lease or {}).get("metadata", {}).get("annotations") or {})

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
    def held(self, planned_on: Versions) -> Iterator[None]:
        """Hold the Lease during the block. Raises ConcurrentChange, AbandonedLease or LeaseTimeout on entry."""
        self._acquire(planned_on)
        done = threading.Event()
        renewing = threading.Thread(target=self._keep_renewing, args=(done,), daemon=True)
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
        # No request as long as no other run can consider the Lease abandoned.
        if self._loss or _boot_seconds() - self._renewed > ABANDONED_AFTER * _TRUSTED:
            self._renew()

    def loss(self) -> LeaseLost | None:
        try:
            self.check()
        except KubeError:
            return self._loss
        return None

    def _read_lease(self) -> dict[str, Any] | None:
        return self._client.get(LEASE, SYSTEM_NAMESPACE, POOLS_LEASE)

    def _acquire(self, planned_on: Versions) -> None:
        lease = self._lease or {}
        holder = _holder_of(lease)
        if not holder:
            sent = _boot_seconds()
            try:
                # The patch names the version that was read, so the second of two runs that send it gets a 409.
                self._lease = self._patch_lease(lease, holder=self._holder, planned_on=planned_on)
                self._renewed = sent
                return
            except KubeError as error:
                # deleted, changed, or unknown
                if not error.may_be_written and not (isinstance(error, ApiError) and error.status in (404, 409)):
                    raise
                now = self._read_quietly() if error.may_be_written else self._read_lease() or {}
                if _holder_of(now) == self._holder:  # The patch arrived, but its response was lost.
                    self._lease, self._renewed = now, sent
                    return
                if error.may_be_written:
                    raise
            lease, holder = now, _holder_of(now)
        self._await_release(lease, holder or _last_holder_of(lease))

    def _await_release(self, lease: dict[str, Any], holder: str) -> None:
        """Wait until the other run releases the Lease or stops renewing it. Always raises."""
        unchanged_since = time.monotonic()

        def is_released() -> bool:
            nonlocal lease, holder, unchanged_since
            now = self._read_lease() or {}
            version = lease.get("metadata", {}).get("resourceVersion")
            if now.get("metadata", {}).get("resourceVersion") != version:
                unchanged_since = time.monotonic()
                holder = _holder_of(now) or holder
            # By our own clock, as client-go does (tools/leaderelection): clocks of hosts differ.
            elif time.monotonic() - unchanged_since > ABANDONED_AFTER:
                self._release_abandoned(now)
                raise AbandonedLease(f"{_holder_text(holder)} stopped renewing the Lease for pools")
            lease = now
            self._progress(f"waiting for {_holder_text(holder)}, which holds the Lease for pools")
            return not _holder_of(now)

        if not _holder_of(lease):
            raise _changed_by(holder)
        if poll(is_released, _PATIENCE, backoff(_DELAY), immediate=False, sleep=self._sleep):
            raise _changed_by(holder)
        raise LeaseTimeout(
            f"another run is changing the pools: {_holder_text(holder)}. Gave up after {_PATIENCE:.0f} s without "
            f"changing anything. Run the task again later."
        )

    def _release_abandoned(self, lease: dict[str, Any]) -> None:
        try:
            self._patch_lease(lease, holder=None)
        except ApiError as error:
            if error.status != 409:  # Another run released it first, or its holder is alive after all.
                raise

    def _keep_renewing(self, done: threading.Event) -> None:
        while not done.wait(_RENEWED_EVERY):
            with suppress(KubeError):  # The next write, or the next attempt, finds it out again.
                self._renew()
            if self._loss:
                return

    def _renew(self) -> None:
        """Renew the Lease. If it was released for this run and not acquired since, acquire it again.

        Raises LeaseLost, or KubeError if the state of the Lease is not known.
        """
        with self._lock:
            if self._loss:
                raise self._loss
            for _attempt in range(_ATTEMPTS):
                sent, lease = _boot_seconds(), self._lease or {}
                try:
                    self._lease = self._patch_lease(lease, holder=self._holder)
                    self._renewed = sent
                    return
                except ApiError as error:
                    if error.status not in (404, 409):
                        raise
                    problem = error
                now = self._read_lease() or {}
                if _holder_of(now) not in ("", self._holder) or _acquisitions_of(now) != _acquisitions_of(lease):
                    self._loss = self._lost_to(now)
                    raise self._loss
                self._lease = now
            raise problem

    def _lost_to(self, lease: dict[str, Any]) -> LeaseLost:
        suspended = f"this run was suspended, or could not renew it, for {_boot_seconds() - self._renewed:.0f} s"
        if not lease:
            return LeaseLost(f"the Lease for pools was deleted while this run held it; {suspended}.")
        return LeaseLost(f"{_holder_text(_last_holder_of(lease))} has taken over the Lease for pools; {suspended}.")

    def _release(self) -> None:
        """Best effort: the next run releases a Lease that this one could not, and has to take this one for killed."""
        if self._loss:
            return
        with suppress(KubeError):
            try:
                self._patch_lease(self._lease or {}, holder=None)
            except KubeError:  # Refused for once, or the response to a renewal or to the release was lost.
                now = self._read_lease() or {}
                if _holder_of(now) == self._holder:
                    self._patch_lease(now, holder=None)

    def _read_quietly(self) -> dict[str, Any]:
        with suppress(KubeError):
            return self._read_lease() or {}
        return {}

    def _patch_lease(
        self, lease: dict[str, Any], *, holder: str | None, planned_on: Versions | None = None
    ) -> dict[str, Any]:
        if not lease:
            raise KubeError("the Lease for pools was deleted. Run the task again.")
        now = now_as_text() if holder else None
        seconds = math.ceil(ABANDONED_AFTER) if holder else None
        # The times are for people: no decision depends on them.
        spec = {"holderIdentity": holder, "renewTime": now, "leaseDurationSeconds": seconds}
        if _holder_of(lease) != holder:
            spec["acquireTime"] = now
            if holder:
                spec["leaseTransitions"] = _acquisitions_of(lease)[1] + 1
        # They survive the release: a run that comes second can name the first, and see what that had read.
        annotations = {CHANGED_BY: holder} if holder else {}
        if planned_on:
            annotations[PLANNED_ON] = _format_versions(planned_on)
        metadata = {"metadata": {"annotations": annotations}} if annotations else {}
        return self._client.merge_patch(LEASE, lease["metadata"], {"spec": spec, **metadata})


def system_namespace() -> dict[str, Any]:
    """The namespace in which pools are declared."""
    metadata = {"name": SYSTEM_NAMESPACE, "labels": {MANAGED_BY: FIELD_MANAGER}}
    return {"apiVersion": NAMESPACE.api_version, "kind": NAMESPACE.kind, "metadata": metadata}


def versions_of(nodes: Iterable[Mapping[str, Any]], config_maps: Iterable[Mapping[str, Any]]) -> Versions:
    """What a plan is made on. ``nodes`` are the metadata of nodes."""
    return {
        NODE.plural: max(map(version_of, nodes), default=0),
        CONFIG_MAP.plural: max((version_of(obj["metadata"]) for obj in config_maps), default=0),
    }


def version_of(metadata: Mapping[str, Any]) -> int:
    """The resourceVersion. Those of one kind can be compared as numbers (KEP-5504; etcd's have always been such)."""
    version = str(metadata.get("resourceVersion"))
    return int(version) if version.isdigit() else 0


def _boot_seconds() -> float:
    """Seconds that pass while the host is suspended as well, when those of time.monotonic do not on Linux."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def _changed_by(holder: str) -> ConcurrentChange:
    by = f": {_holder_text(holder)}" if holder else ""
    return ConcurrentChange(f"another run changed the pools at the same time{by}")


def _holder_of(lease: dict[str, Any]) -> str:
    return str((lease.get("spec") or {}).get("holderIdentity") or "")


def _acquisitions_of(lease: dict[str, Any]) -> tuple[str, int]:
    """The uid of the Lease, and how often it was acquired: equal if no run has acquired it in between."""
    return str(lease.get("metadata", {}).get("uid")), int((lease.get("spec") or {}).get("leaseTransitions") or 0)


def _last_holder_of(lease: dict[str, Any]) -> str:
    annotations = lease.get("metadata", {}).get("annotations") or {}
    return _holder_of(lease) or str(annotations.get(CHANGED_BY) or "")


def _holder_text(holder: str) -> str:
    parts = holder.split("/")
    return f"process {parts[1]} on {parts[0]}" if len(parts) > 1 else holder or "another run"


def _format_versions(versions: Versions) -> str:
    return " ".join(f"{kind}={version}" for kind, version in sorted(versions.items()))


def _parse_versions(annotations: Mapping[str, str]) -> dict[str, int]:
    pairs = (pair.partition("=") for pair in annotations.get(PLANNED_ON, "").split())
    return {kind: int(version) for kind, _sign, version in pairs if version.isdigit()}
