# SPDX-License-Identifier: BSD-2-Clause
"""Write an object only if it still is what the plan was made from.

Every request carries the uid and resourceVersion of the object that was read, or demands that there is none.
Controllers change versions all the time, so a rejected request is not yet a conflict: the object is read again, and
only if what the plan depends on differs, someone else was here. The same look at the object tells whether a request
whose response was lost has been made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..cluster.status import is_admitted_by_kueue, is_terminating
from ..kube.client import Client
from ..kube.errors import ApiError, ConcurrentChange, KubeError
from ..kube.resources import resource_of
from ..labels import FIELD_MANAGER, PAUSED_REPLICAS
from .fields import changes, is_applied_alike, owned_fields
from .paths import ABSENT, Change, value_at
from .plan import Step

_ATTEMPTS = 5
_LEFTOVER_DELAY = 0.5  # seconds that finalizers of others get

# An apply with a resourceVersion creates an object that does not exist, and is a conflict for one of another version
# (apiserver, registry/generic/registry/store.go, ``Store.update``). No object has this one: etcd starts there.
NO_VERSION = "1"


def guarded_apply(
    client: Client,
    desired: dict[str, Any],
    live: Mapping[str, Any] | None = None,
    *,
    former: Mapping[str, Any] | None = None,
    force: bool = False,
    dry_run: bool = False,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Apply to the object that ``live`` was read from, or create one. Raises ConcurrentChange.

    ``former`` is an object of the same name that may still be there, on its way out: it is never reused, because the
    garbage collector would delete it together with what was applied to it.
    """
    based_on = live or None
    for attempt in range(_ATTEMPTS):
        try:
            return client.apply(_at_version(desired, based_on), dry_run=dry_run, force=force)
        except KubeError as error:
            problem = error
        is_conflict = _is_conflict(problem, creates=not live)
        planned = changes(desired, live, FIELD_MANAGER) if live else ()
        now = _look_again(client, desired, problem, is_conflict, dry_run)
        if now and former and now["metadata"]["uid"] == former["metadata"]["uid"]:
            client.delete(resource_of(now), now["metadata"], propagation="Background", dry_run=dry_run)
            if attempt:
                sleep(_LEFTOVER_DELAY)
        elif now and not is_terminating(now) and not changes(desired, now, FIELD_MANAGER):
            return now  # Our own write, whose response was lost; or someone else made the same one.
        elif not is_conflict:
            problem.may_be_written = False
            raise problem
        elif live and now and _is_same_object(live, now) and planned == changes(desired, now, FIELD_MANAGER):
            based_on = now
        elif live or now:
            raise concurrent_change(desired, now)
    raise problem


def guarded_delete(
    client: Client,
    live: dict[str, Any],
    *,
    propagation: str,
    grace_seconds: int | None = None,
    dry_run: bool = False,
) -> None:
    """Delete the object that ``live`` was read from; one that is gone is no error. Raises ConcurrentChange."""
    now = live
    # The resourceVersion as a precondition besides the uid (meta/v1/types.go, Preconditions). The pods of a job are not
    # what we applied: their versions say nothing about a concurrent run.
    same_version = bool(owned_fields(live, FIELD_MANAGER))
    for _attempt in range(_ATTEMPTS):
        try:
            client.delete(
                resource_of(live),
                now["metadata"],
                propagation=propagation,
                grace_seconds=grace_seconds,
                dry_run=dry_run,
                same_version=same_version,
            )
            return
        except KubeError as error:
            problem = error
        is_conflict = _is_conflict(problem)
        found = _look_again(client, live, problem, is_conflict, dry_run)
        if not found or is_terminating(found):
            return
        if not _is_same_object(live, found):  # Another run has created it again, perhaps with others around it.
            raise concurrent_change(live, found)
        if not is_conflict:
            problem.may_be_written = False
            raise problem
        if not is_as_applied(live, found):
            raise concurrent_change(live, found)
        now = found
    raise problem


def guarded_patch(client: Client, step: Step, *, dry_run: bool) -> dict[str, Any]:
    """The live object with the changes of the step.

    The patch is guarded by the resourceVersion. Controllers change that all the time, so after a conflict only the
    fields of the changes are compared. Raises ConcurrentChange if they differ from what the plan was made for.
    """
    live = step.live
    for _try in range(_ATTEMPTS):
        try:
            return client.merge_patch(resource_of(live), live["metadata"], _merge_patch(step.changes), dry_run=dry_run)
        except KubeError as error:
            problem = error
        is_conflict = _is_conflict(problem) or (isinstance(problem, ApiError) and problem.status == 404)
        now = _look_again(client, live, problem, is_conflict, dry_run)
        if now is None or now["metadata"]["uid"] != live["metadata"]["uid"]:
            raise concurrent_change(live, now)
        if all(value_at(now, change.path) == change.after for change in step.changes):
            return now  # Our own write, whose response was lost; or someone else made the same change.
        if not is_conflict:
            problem.may_be_written = False
            raise problem
        if any(value_at(now, change.path) != change.before for change in step.changes):
            raise concurrent_change(live, now)
        live = now
    raise problem


def _merge_patch(changes: Iterable[Change]) -> dict[str, Any]:
    """A JSON merge patch (RFC 7386): null removes a field."""
    root: dict[Any, Any] = {}
    for change in changes:
        node = root
        for name in change.path[:-1]:
            node = node.setdefault(name, {})
        node[change.path[-1]] = None if change.after is ABSENT else change.after
    return root


def is_as_applied(live: Mapping[str, Any], now: Mapping[str, Any] | None) -> bool:
    """Whether ``now`` is the object that ``live`` was, with the fields that runs of gpuctl have set."""
    if now is None or not _is_same_object(live, now) or _pause_of(live) != _pause_of(now):
        return False
    return is_applied_alike(FIELD_MANAGER, live, now)


def concurrent_change(obj: Mapping[str, Any], now: Mapping[str, Any] | None) -> ConcurrentChange:
    """The error for an object that is another one ``now`` than the plan was made from; names who changed it."""
    what = f"{obj['kind']} {obj['metadata']['name']}"
    if now is None or is_terminating(now):
        return ConcurrentChange(f"{what} was deleted at the same time. Run the task again.")
    manager, moment = _last_writer(now)
    if not manager:
        return ConcurrentChange(f"{what} was changed by someone else at the same time. Run the task again.")
    who = "another run" if manager.startswith(FIELD_MANAGER) else "someone else"
    at = f", {moment[11:19]} UTC" if moment else ""
    return ConcurrentChange(f"{who} changed {what} at the same time (field manager {manager}{at}). Run the task again.")


def _at_version(desired: dict[str, Any], live: Mapping[str, Any] | None) -> dict[str, Any]:
    version = {"resourceVersion": NO_VERSION}
    if live:
        version = {key: live["metadata"][key] for key in ("uid", "resourceVersion")}
    return {**desired, "metadata": {**desired["metadata"], **version}}


def _is_conflict(problem: KubeError, *, creates: bool = False) -> bool:
    """Whether the object is another one than was expected.

    Fields that another manager holds are for the user to decide about, unless there should be no object at all.
    """
    return isinstance(problem, ApiError) and problem.status == 409 and (creates or not problem.is_field_conflict)


def _look_again(
    client: Client, obj: dict[str, Any], problem: KubeError, is_conflict: bool, dry_run: bool
) -> dict[str, Any] | None:
    """The object as it is after a failed request. Raises ``problem`` if that would not explain it."""
    metadata = obj["metadata"]
    if not is_conflict and (dry_run or not problem.may_be_written):
        raise problem
    try:
        return client.get(resource_of(obj), metadata.get("namespace"), metadata["name"])
    except KubeError as error:
        if not is_conflict:
            raise problem from None
        if isinstance(error, ApiError) and error.is_forbidden:
            raise concurrent_change(obj, {"metadata": {}}) from None
        raise


def _is_same_object(live: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return bool(live["metadata"]["uid"] == now["metadata"]["uid"]) and is_terminating(live) == is_terminating(now)


def _pause_of(obj: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a pause has patched."""
    suspended = not is_admitted_by_kueue(obj) and value_at(obj, ("spec", "suspend")) is True
    return suspended, value_at(obj, ("metadata", "annotations", PAUSED_REPLICAS))


def _last_writer(obj: Mapping[str, Any]) -> tuple[str, str]:
    """The field manager that last changed more than the status, and when (RFC 3339)."""
    # Controllers write the status all the time, as a subresource. That is no change of what was declared.
    entries = [entry for entry in obj["metadata"].get("managedFields") or () if not entry.get("subresource")]
    last: dict[str, Any] = max(entries, key=lambda entry: entry.get("time") or "", default={})
    return str(last.get("manager") or ""), str(last.get("time") or "")
