# SPDX-License-Identifier: BSD-2-Clause
"""What happens to pods: a test decides it by annotations of the pod or by rules.

Each field of Behavior is also the annotation lab/<field-with-dashes>. The recordings use lab/run-seconds and
lab/exit-code.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from fnmatch import fnmatchcase
from typing import Any

from .base import Object

PREFIX = "lab/"


@dataclass(frozen=True)
class Behavior:
    """What happens to a pod. Times are seconds; those of containers count from the start of the container."""

    start_seconds: float | None = None  #: until it starts, after it got its node
    by_hand: bool = False  #: the test reports what becomes of its containers
    stuck: bool = False  #: never starts: stays Pending, ContainerCreating
    sandbox_error: str = ""  #: its sandbox or network cannot be created, with this message in an event
    start_error: str = ""  #: the runtime cannot start its containers, with this message (StartError, exit code 128)
    pull_error: str = ""  #: its images cannot be pulled, with this message ("true": the usual one)
    image_user: str = "0"  #: whom its images run as: a number, or a name, which the kubelet cannot judge
    init_seconds: float = 0.0  #: how long each init container runs
    init_exit_code: int = 0  #: how init containers end
    run_seconds: float | None = (
        None  #: the pod ends after this time, whatever its restartPolicy; without it, it runs on
    )
    crash_seconds: float | None = None  #: its containers exit after this time and are restarted as restartPolicy says
    exit_code: int | None = None  #: of its containers then (run_seconds: 0 by default, crash_seconds: 1)
    reason: str = ""  #: why its containers ended, e.g. OOMKilled (exit code 137 by default)
    ready: bool = True  #: false: runs, but is never ready
    ready_seconds: float = 0.0  #: ready so long after the start
    stop_seconds: float | None = None  #: how long it takes to stop when it is deleted; at most its grace period
    log: str = ""  #: the text of its logs
    log_lines: int | None = None  #: so many lines of log: "line 1", "line 2", …
    log_seconds: float | None = None  #: its log comes during this time, not all at once; pairs of lines share a time

    @property
    def final_exit_code(self) -> int:
        if self.exit_code is not None:
            return self.exit_code
        if self.reason == "OOMKilled":
            return 137
        return 1 if self.crash_seconds is not None and self.run_seconds is None else 0


@dataclass(frozen=True)
class Rule:
    """Behavior for the pods it matches: all of the given criteria have to hold; names and images are glob patterns."""

    number: int
    behavior: dict[str, Any]
    labels: dict[str, str]
    image: str = "*"
    name: str = "*"
    namespace: str = "*"

    def matches(self, pod: Object) -> bool:
        metadata = pod["metadata"]
        images = [container.get("image", "") for container in pod["spec"]["containers"]]
        return (
            self.labels.items() <= (metadata.get("labels") or {}).items()
            and fnmatchcase(metadata["name"], self.name)
            and fnmatchcase(metadata["namespace"], self.namespace)
            and any(fnmatchcase(image, self.image) for image in images)
        )


def behavior_of(pod: Object, rules: list[Rule]) -> Behavior:
    """The behavior of a pod: rules in the order they were given, then its annotations."""
    wanted: dict[str, Any] = {}
    for rule in rules:
        if rule.matches(pod):
            wanted |= rule.behavior
    annotations = pod["metadata"].get("annotations") or {}
    for name in _KINDS:
        text = annotations.get(PREFIX + name.replace("_", "-"))
        if text is not None:
            wanted[name] = read_option(name, text)
    return replace(Behavior(), **wanted) if wanted else DEFAULT_BEHAVIOR


def read_option(name: str, value: Any) -> Any:
    """An order from its text (annotation, JSON of a request); KeyError for an unknown name, ValueError for nonsense."""
    kind = _KINDS[name]
    if kind == "bool":
        return str(value).lower() in ("true", "1", "yes")
    if kind.startswith("float"):
        return float(value)
    if kind.startswith("int"):
        return int(value)
    return str(value)


DEFAULT_BEHAVIOR = Behavior()
_KINDS = {field.name: str(field.type) for field in fields(Behavior)}
