# SPDX-License-Identifier: BSD-2-Clause
"""Deletes finished jobs ttlSecondsAfterFinished after their end. Source: pkg/controller/ttlafterfinished."""

from __future__ import annotations

from datetime import timedelta

from kubesim.clock import parse_time
from kubesim.errors import ApiError

from .base import Controller, Key, Object, key_of
from .job import finished_condition


class TTLAfterFinishedController(Controller):
    name = "ttl-after-finished-controller"
    watches = ("Job",)

    def observe(self, event: str, kind: str, obj: Object, old: Object | None) -> None:
        ttl = obj["spec"].get("ttlSecondsAfterFinished")
        if event == "DELETED" or ttl is None or not finished_condition(obj):
            return
        if old is not None and not finished_condition(old):
            # Conditions have whole seconds: counted from there a job would go up to a second early, perhaps unseen.
            self.enqueue(key_of(obj), ttl)
        elif old is None or old["spec"].get("ttlSecondsAfterFinished") != ttl:
            self.enqueue(key_of(obj))

    def reconcile(self, key: Key) -> None:
        job = self.registry.get("Job", *key)
        ttl = job["spec"].get("ttlSecondsAfterFinished") if job else None
        finished = finished_condition(job) if job else None
        if job is None or ttl is None or finished is None or "deletionTimestamp" in job["metadata"]:
            return
        due = parse_time(finished["lastTransitionTime"]) + timedelta(seconds=ttl)
        left = (due - self.clock.now()).total_seconds()
        if left > 0:
            self.enqueue(key, left)
            return
        try:
            self.registry.delete("Job", *key, propagation="Foreground", preconditions={"uid": job["metadata"]["uid"]})
        except ApiError as error:
            if error.status not in (404, 409):
                raise
