# SPDX-License-Identifier: BSD-2-Clause
"""Follow the log of one container, through broken connections and restarts, in a thread of its own.

A container that restarts begins a new log. The API serves that of the container that runs, or ran last, and that of the
one before it (``previous``); others are gone (pkg/kubelet, validateContainerLogStatus).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from threading import Event, Thread
from typing import Any

from ...cluster.status import is_terminating
from ...kube.client import Client
from ...kube.container_log import open_log
from ...kube.errors import ApiError, KubeError
from ...kube.limits import MIB
from ...kube.open_stream import OpenStream
from ...kube.resources import POD
from ...logs.log_lines import LineBuffer, View, readable_text, split_timestamp
from ...logs.log_query import ALL, log_query
from ...redaction import line_masker
from ...wait.polling import backoff
from ...wait.watch_cache import raise_error
from .log_position import GAP, NEW, LogPosition

Pod = Mapping[str, Any]

_TIMESTAMP_ROOM = 40  # bytes
_STATUS_LAG = 2.0  # seconds that the pod's status in the API may be behind its kubelet
_LONGEST_DELAY = 5.0  # seconds until the next attempt
_SHORTEST_STREAM = 1.0  # seconds; one that was shorter calls for a delay
# A kubelet that finds the log rotated goes on with the newest file. If there were two since, it leaves one out and does
# not say so (pkg/kubelet/kuberuntime/logs, ReadLogs); but then time jumps, without anybody having waited for a line.
_ROTATED_SIZE = 10 * MIB  # containerLogMaxSize
_JUMP = 2  # seconds
_RUNTIME_ROOM = 10  # bytes that a line has in the file besides: its stream, and a tag
_PATIENCE = 60.0  # seconds to read the end of a log for, where the node does not answer


@dataclass(frozen=True)
class ContainerState:
    """A container as the API has it: which run of it is the current one, and whether that has started or ended."""

    run: int = 0
    started: bool = False
    ended: Mapping[str, Any] | None = None
    last: Mapping[str, Any] | None = None  # how the run before ended
    final: bool = False  # It does not run again.

    @property
    def has_log(self) -> bool:
        return self.started or self.ended is not None


def container_state(pod: Pod, container: str) -> ContainerState:
    status, spec = pod.get("status") or {}, pod["spec"]
    over = status.get("phase") in ("Succeeded", "Failed")
    inits = [each["name"] for each in spec.get("initContainers") or ()]
    statuses = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    one = next((each for each in statuses if each["name"] == container), None)
    if one is None:
        return ContainerState(final=over)
    state = one.get("state") or {}
    ended, last = state.get("terminated"), (one.get("lastState") or {}).get("terminated")
    run = int(one.get("restartCount") or 0)
    if "waiting" in state and last:  # to be restarted: the count rises when it is
        ended = last
    policy = spec.get("restartPolicy") or "Always"
    stays = ended is not None and (
        policy == "Never"
        or (ended["exitCode"] == 0 and (policy == "OnFailure" or container in inits))
        or is_terminating(pod)
    )
    return ContainerState(run, "running" in state, ended, last, over or stays)


@dataclass(frozen=True)
class FollowedLine:
    """A line, without secrets. ``text`` may still act on a terminal."""

    text: str
    timestamp: str | None = None


@dataclass(frozen=True, kw_only=True)
class Start:
    """Where to begin: the last ``tail`` lines (ALL: all) since a time."""

    tail: int = ALL
    since: str | None = None


class _ConnectionsLost(Exception):
    """The task is over."""


class PodLog(Thread):
    """``pod`` is the pod as it was seen last; ``changed`` is set when it is replaced, and ``gone`` when it is deleted.

    ``submit`` passes what is to be done to the task's own thread, with its size in memory.
    """

    def __init__(
        self,
        client: Client,
        pod: dict[str, Any],
        container: str,
        view: View,
        start: Start,
        *,
        submit: Callable[[Callable[[], None], int], None],
        stopped: Event,
        lines: Callable[[PodLog, Sequence[FollowedLine]], None],
        note: Callable[[PodLog, str], None],
    ) -> None:
        super().__init__(name=f"log of {pod['metadata']['name']}", daemon=True)
        self.pod = pod
        self.gone = False
        self.over = False
        self.unfinished = ""  # the line that has not ended yet, of a progress bar
        self.broken_since: float | None = None
        self.silent_kubelet = False  # perhaps: the API server answers, but not with the log
        self.changed = Event()
        self._client, self._container, self._view, self._start = client, container, view, start
        self._submit, self._stopped = submit, stopped
        self._lines, self._note_of = lines, note
        self._mask = line_masker(view.secrets)
        self._stream: OpenStream | None = None
        self._message = ""
        self._size = 0  # in bytes, since a file may have begun
        self._read_at = time.monotonic()
        self._rest: FollowedLine | None = None  # at the end of a connection, a line that had not ended

    @property
    def pod_name(self) -> str:
        return str(self.pod["metadata"]["name"])

    def stop(self) -> None:
        """For another thread, which has set ``stopped`` before."""
        self.changed.set()
        if (stream := self._stream) is not None:
            stream.stop()

    def run(self) -> None:
        try:
            self._follow()
        except _ConnectionsLost:
            pass
        except Exception as error:  # Whatever it is: the task's own thread must not wait for ever.
            self._submit(partial(raise_error, error), 0)
        finally:
            self.over = True
            self._submit(lambda: None, 0)

    def _follow(self) -> None:
        state = container_state(self.pod, self._container)
        start, position = self._start, None
        while True:
            position = self._follow_run(state.run, position or LogPosition(whole=start == Start()), start)
            start = Start()
            run, state = state.run, self._next_state(state)
            if state.run == run:
                return
            lost = state.run - run - 1
            if lost > 0:
                position = None
                self._submit_note(f"{lost} more restart{'s' if lost > 1 else ''} since; those logs are gone")

    def _follow_run(self, run: int, position: LogPosition, start: Start) -> LogPosition | None:
        """All of one run of the container, until it has ended and its log was read to the end.

        Returns the position in the log of the next run, if it was that one.
        """
        delays = backoff(0.2, 1.6, _LONGEST_DELAY)
        first = True
        while True:
            began = time.monotonic()
            clean = self._read_run(run, position, start, first=first)
            first = first and position.is_empty and not clean
            state = self._container_state()
            if state is None:
                self._deleted(complete=clean)
                return None
            if state.run != run or state.ended:
                return self._finish(run, state, position, start)
            if time.monotonic() - began >= _SHORTEST_STREAM:
                delays = backoff(0.2, 1.6, _LONGEST_DELAY)
            else:
                self._pause_for(next(delays))

    def _finish(self, run: int, state: ContainerState, position: LogPosition, start: Start) -> LogPosition | None:
        """Read what is left of a run that has ended; returns what ``_follow_run`` does."""
        delays = backoff(0.2, 1.6, _LONGEST_DELAY)
        deadline = time.monotonic() + _PATIENCE
        behind = state.run - run
        while behind < 2 and not self._read_run(run, position, start, follow=False, previous=behind == 1):
            if time.monotonic() > deadline:
                self._submit_note("the end of its log cannot be read")
                break
            self._pause_for(next(delays))
            now = self._container_state()
            if now is None:
                self._deleted(complete=False)
                return None
            state, behind = now, now.run - run
        if behind > 1:
            self._submit_note("restarted more than once since; the end of its log is gone")
            return None
        ended = state.last if behind else state.ended
        other = behind == 1 and not position.is_known
        if other:  # The container had restarted before its log was opened, which was the new one then.
            self._read_run(run, LogPosition(whole=True), Start(), follow=False, previous=True)
        if ended and (behind or not state.final):
            self._submit_note(f"ended with {end_text(ended)}, is restarted")
        elif ended and ended.get("exitCode"):
            self._submit_note(f"ended with {end_text(ended)}")
        return position if other else None

    def _deleted(self, *, complete: bool) -> None:
        if self._rest:
            self._pass_on([self._rest])
        self._submit_note("pod deleted" if complete else "pod deleted; the end of its log may be missing")

    def _next_state(self, state: ContainerState) -> ContainerState:
        """The state with the next run of the container once that has a log, or the same if there is none."""
        while not self._stopped.is_set():
            self.changed.clear()
            now = container_state(self.pod, self._container)
            if now.run > state.run and now.has_log:
                return now
            if self.gone or (now.final and now.run <= state.run):
                return state
            self.changed.wait()
        raise _ConnectionsLost

    # -- requests -----------------------------------------------------------------------------------------------------

    def _read_run(
        self,
        run: int,
        position: LogPosition,
        start: Start,
        *,
        follow: bool = True,
        previous: bool = False,
        first: bool = False,
    ) -> bool:
        """Read from the position on. Whether the log was read to its end, as the server says."""
        since = position.since
        begin = start if since is None else Start(since=since)
        query = log_query(self._container, tail=begin.tail, since=begin.since, previous=previous)
        held = None
        if since is None and self._view.search and begin.tail != ALL:
            # Only lines that match count, so all have to be read first.
            del query["tailLines"]
            follow, held = False, deque[FollowedLine](maxlen=begin.tail)
        position.resume()
        buffer = LineBuffer(self._view.max_line + _TIMESTAMP_ROOM)
        verify = partial(self._is_run, run, time.monotonic()) if not first and not previous else None
        try:
            if not follow:
                self._client.begin_task()
            namespace = self.pod["metadata"]["namespace"]
            stream = self._stream = open_log(self._client, namespace, self.pod_name, query, follow=follow)
        except ApiError as error:
            return self._is_nothing_left(error, follow=follow)
        except KubeError as error:
            self._outage(error)
            return False
        try:
            for piece in stream.pieces():
                if self._stopped.is_set():
                    raise _ConnectionsLost
                self.broken_since = None
                lines = self._new_lines(buffer.feed(piece), position, verify)
                if lines is None:
                    return False
                if held is None:
                    self._pass_on(lines)
                else:
                    held.extend(self._matching(lines))
                self._show_unfinished(buffer.rest)
                self._read_at = time.monotonic()
        finally:
            stream.stop()
            self._stream = None
        if self._stopped.is_set():
            raise _ConnectionsLost
        self.unfinished = ""
        self._rest = self._unended(buffer.rest)
        if held is not None:
            self._emit(list(held))
            return False
        if stream.broken:
            self.broken_since = self.broken_since or (None if stream.silent else time.monotonic())
            return False
        self.broken_since = None
        if buffer.rest and not follow:
            self._pass_on(self._new_lines([(buffer.rest, buffer.cut)], position, None) or [])
            self._rest = None
        return True

    def _is_nothing_left(self, error: ApiError, *, follow: bool) -> bool:
        """Whether there is nothing to read any more. Raises errors that stay."""
        if error.is_transient:
            self._outage(error)
            return False
        if error.status == 404:  # The pod is gone.
            return True
        if error.status == 400:  # The container is about to start; or what has ended has left no log.
            return not follow
        raise error

    def _outage(self, error: KubeError) -> None:
        if not error.is_transient:
            raise error
        self.broken_since = self.broken_since or time.monotonic()
        self.silent_kubelet = isinstance(error, ApiError) and error.status >= 500
        self._client.begin_task()  # To follow may outlast an outage that is too long for other tasks.

    def _container_state(self) -> ContainerState | None:
        """As the API has it now; None if the pod is gone."""
        delays = backoff(0.5, 1.6, _LONGEST_DELAY)
        metadata = self.pod["metadata"]
        while True:
            try:
                # Accounts that may read logs may list pods, and need not be able to get one.
                found = self._client.list_objects(
                    POD, metadata["namespace"], fields=f"metadata.name={metadata['name']}"
                )
            except KubeError as error:
                self._outage(error)
                self._pause_for(next(delays))
                continue
            pod = next((each for each in found if each["metadata"]["uid"] == metadata["uid"]), None)
            return container_state(pod, self._container) if pod else None

    def _is_run(self, run: int, opened: float) -> bool:
        """Whether the log that was opened then is the one of this run: by then its kubelet has said what runs."""
        self._pause_for(max(0.0, opened + _STATUS_LAG - time.monotonic()))
        state = self._container_state()
        return state is not None and state.run == run

    def _pause_for(self, seconds: float) -> None:
        if self._stopped.wait(seconds):
            raise _ConnectionsLost

    # -- lines --------------------------------------------------------------------------------------------------------

    def _new_lines(
        self, found: Iterable[tuple[bytes, bool]], position: LogPosition, verify: Callable[[], bool] | None
    ) -> list[FollowedLine] | None:
        """Those that have not been shown; None if they are of another run of the container, as ``verify`` says."""
        lines: list[FollowedLine] = []
        for raw, _cut in found:
            timestamp, data = split_timestamp(raw)
            if timestamp is None:
                message = readable_text(raw, self._view, self._mask)[0]
                if message and message != self._message:  # of the kubelet, not the container
                    lines.append(FollowedLine(message))
                    self._message = message
                continue
            if position.is_empty and verify and not verify():
                return None
            before = position.newest
            added = position.add(raw, timestamp)
            if added == NEW and self._leaps(len(raw), before, position.newest):
                text = f"(lines before {timestamp} may have been rotated away before they were read)"
                lines.append(FollowedLine(text))
            if added == GAP:
                if verify and not verify():
                    return None
                lines.append(FollowedLine(f"(lines before {timestamp} were rotated away before they could be read)"))
                position.skip()
                added = position.add(raw, timestamp)
            if added == NEW:
                lines.append(FollowedLine(readable_text(data, self._view, self._mask)[0], timestamp))
        return lines

    def _leaps(self, size: int, before: int | None, now: int | None) -> bool:
        """Whether a file of the log may be missing before a line of that size."""
        self._size += size + _RUNTIME_ROOM
        if before is None or now is None or now - before < _JUMP or self._size < _ROTATED_SIZE:
            return False
        if time.monotonic() - self._read_at > (now - before) / 2:  # The container was silent.
            return False
        self._size = 0
        return True

    def _pass_on(self, lines: Sequence[FollowedLine]) -> None:
        if lines:
            self._emit(self._matching(lines))

    def _matching(self, lines: Sequence[FollowedLine]) -> Sequence[FollowedLine]:
        if self._view.search is None or not lines:
            return lines
        found = self._view.search([line.text for line in lines])
        return [line for line, matches in zip(lines, found, strict=True) if matches]

    def _emit(self, lines: Sequence[FollowedLine]) -> None:
        if lines:
            memory = sum(len(line.text) for line in lines) * 2 + len(lines) * 200
            self._submit(partial(self._lines, self, lines), memory)

    def _show_unfinished(self, rest: bytes) -> None:
        line = self._unended(rest) if b"\r" in rest and self._view.search is None else None
        self.unfinished = line.text if line else ""

    def _unended(self, rest: bytes) -> FollowedLine | None:
        timestamp, data = split_timestamp(rest)
        return FollowedLine(readable_text(data, self._view, self._mask)[0], timestamp) if timestamp else None

    def _submit_note(self, text: str) -> None:
        self._submit(partial(self._note_of, self, text), 0)


def end_text(ended: Mapping[str, Any]) -> str:
    """``exit code 137 (OOMKilled)``."""
    reason = ended.get("reason")
    return (
        f"exit code {ended.get('exitCode')}{f' ({reason})' if reason and reason not in ('Error', 'Completed') else ''}"
    )
