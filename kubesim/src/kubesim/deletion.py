# SPDX-License-Identifier: BSD-2-Clause
"""What DELETE does to an object: marks it, gives it finalizers, or lets it go.

Source: apiserver pkg/registry/rest/delete.go (BeforeDelete), pkg/registry/generic/registry/store.go
(deletionFinalizersForGarbageCollection, updateForGracefulDeletionAndFinalizers), pkg/registry/core/pod/strategy.go
(CheckGracefulDelete), pkg/registry/core/namespace/storage/storage.go (Delete).
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from kubesim import errors
from kubesim.clock import parse_time, rfc3339
from kubesim.field import FieldError, invalid, not_supported

Object = dict[str, Any]
ORPHAN, FOREGROUND = "orphan", "foregroundDeletion"


@dataclass
class DeleteOptions:
    grace_seconds: int | None = None
    propagation: str | None = None
    preconditions: dict[str, str] = field(default_factory=dict)
    orphan_dependents: bool | None = None

    def validate(self) -> list[FieldError]:
        """metav1 validation.ValidateDeleteOptions."""
        found = []
        if self.propagation is not None and self.orphan_dependents is not None:
            text = "orphanDependents and deletionPropagation cannot be both set"
            found.append(invalid("propagationPolicy", self.propagation, text))
        if self.propagation not in (None, "Foreground", "Background", "Orphan"):
            allowed = ("Foreground", "Background", "Orphan", "nil")
            found.append(not_supported("propagationPolicy", self.propagation, allowed))
        return found


def plan(obj: Object, options: DeleteOptions, strategy: Any, now: datetime) -> tuple[Object | None, bool]:
    """What becomes of `obj`: (the changed object to store, or None; whether it is removed now)."""
    _check_preconditions(obj, options.preconditions)
    if obj["kind"] == "Namespace":
        return _plan_namespace(obj, options, now)
    new = copy.deepcopy(obj)
    meta = new["metadata"]
    graceful = False
    if strategy.graceful_deletion:
        graceful, pending = _shorten_or_start_grace(new, options, now)
        if pending:
            return obj, False
    wanted = _collection_finalizers(meta, options, strategy)
    finalizers = wanted if wanted is not None else meta.get("finalizers", [])
    meta["finalizers"] = finalizers
    if not finalizers:
        del meta["finalizers"]
    if not graceful:
        if not finalizers:
            return None, True
        _mark(meta, now)
        return new, False
    return new, not finalizers and meta["deletionGracePeriodSeconds"] == 0


def is_finished(obj: Object) -> bool:
    """Whether an update took the last thing that held a deleted object (store.ShouldDeleteDuringUpdate)."""
    meta = obj["metadata"]
    if not meta.get("deletionTimestamp") or meta.get("finalizers") or meta.get("deletionGracePeriodSeconds"):
        return False
    return not (obj["kind"] == "Namespace" and obj["spec"].get("finalizers"))


def _check_preconditions(obj: Object, preconditions: dict[str, str]) -> None:
    meta, group = obj["metadata"], obj["apiVersion"].rpartition("/")[0]
    uid, version = preconditions.get("uid"), preconditions.get("resourceVersion")
    why = ""
    if uid is not None and uid != meta["uid"]:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({meta['uid']}). "
            "The object might have been deleted and then recreated"
        )
    elif version is not None and version != meta["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
            f"({meta['resourceVersion']}). The object might have been modified"
        )
    if why:
        raise errors.conflict(group, obj["kind"], meta["name"], why)


def _shorten_or_start_grace(pod: Object, options: DeleteOptions, now: datetime) -> tuple[bool, bool]:
    """BeforeDelete for pods: (graceful, already pending and not shortened)."""
    meta = pod["metadata"]
    if meta.get("deletionTimestamp"):
        current = meta.get("deletionGracePeriodSeconds")
        if options.grace_seconds is None or current is None or options.grace_seconds >= current:
            return False, True
        period = max(options.grace_seconds, 0)
        due = parse_time(meta["deletionTimestamp"]) - timedelta(seconds=current - period)
        meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = rfc3339(due), period
        return True, False
    period = pod_grace(pod, options.grace_seconds)
    meta["deletionTimestamp"] = rfc3339(now + timedelta(seconds=period))
    meta["deletionGracePeriodSeconds"] = period
    _bump_generation(meta)
    return True, False


def pod_grace(pod: Object, asked: int | None) -> int:
    """podStrategy.CheckGracefulDelete: seconds; none for pods that were never placed or have ended."""
    spec = pod["spec"]
    period = asked if asked is not None else spec.get("terminationGracePeriodSeconds", 0)
    if not spec.get("nodeName") or pod.get("status", {}).get("phase") in ("Failed", "Succeeded"):
        period = 0
    return 1 if period < 0 else int(period)


def _collection_finalizers(meta: Object, options: DeleteOptions, strategy: Any) -> list[str] | None:
    """The finalizers as the garbage collector needs them; None when they stay as they are."""
    present = meta.get("finalizers", [])
    wanted = [f for f in present if f not in (ORPHAN, FOREGROUND)]
    policy = options.propagation
    if options.orphan_dependents is not None:
        policy = "Orphan" if options.orphan_dependents else "Background"
    if policy is None:
        if ORPHAN in present:
            policy = "Orphan"
        elif FOREGROUND in present:
            policy = "Foreground"
        else:
            policy = strategy.delete_default_propagation
    if policy == "Orphan":
        wanted.append(ORPHAN)
    elif policy == "Foreground":
        wanted.append(FOREGROUND)
    return wanted if set(wanted) != set(present) else None


def _mark(meta: Object, now: datetime) -> None:
    """store.markAsDeleting."""
    if not meta.get("deletionTimestamp"):
        _bump_generation(meta)
        meta["deletionTimestamp"] = rfc3339(now)
    meta["deletionGracePeriodSeconds"] = 0


def _bump_generation(meta: Object) -> None:
    if meta.get("generation"):
        meta["generation"] += 1


def _plan_namespace(obj: Object, options: DeleteOptions, now: datetime) -> tuple[Object | None, bool]:
    """A namespace turns Terminating; it goes when its finalizers, in spec and metadata, are gone."""
    held = bool(obj["spec"].get("finalizers") or obj["metadata"].get("finalizers"))
    if obj["metadata"].get("deletionTimestamp"):
        return obj, not held
    new = copy.deepcopy(obj)
    new["metadata"]["deletionTimestamp"] = rfc3339(now)
    if options.propagation == "Foreground":
        new["metadata"].setdefault("finalizers", []).append(FOREGROUND)
    new.setdefault("status", {})["phase"] = "Terminating"
    return new, not held
