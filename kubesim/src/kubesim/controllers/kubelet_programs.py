# SPDX-License-Identifier: BSD-2-Clause
"""What a container prints whose command is one of a few programs, or a line of them for a shell, and how it ends.

A test asks a pod by these what it was really given, the same way on a real cluster: its environment, the files that are
mounted into it, its host name. Of the shell there is ``;``, ``&&`` and ``$NAME``. A container with any other command
runs on and logs a few lines (kubelet_logs).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from .base import Object
from .kubelet_env import expand, mounted_data

if TYPE_CHECKING:
    from kubesim.registry import Registry

NOT_FOUND = 1
_SHELLS = ("sh", "/bin/sh", "bash", "/bin/bash")
_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


@dataclass(frozen=True)
class Printed:
    """What was printed until the container ended with this exit code."""

    lines: list[str]
    exit_code: int


@dataclass
class _Place:
    """Where a program runs."""

    registry: Registry
    pod: Object
    container: Object
    env: Mapping[str, str]
    lines: list[str] = field(default_factory=list)


def run(registry: Registry, pod: Object, container: Object, env: dict[str, str]) -> Printed | None:
    """Run the command of a container; None if it is more than the programs known here."""
    argv = [expand(word, env) for word in [*(container.get("command") or ()), *(container.get("args") or ())]]
    commands = _commands(argv)
    if commands is None or not all(_is_known(words) for dummy, words in commands):
        return None
    place, status = _Place(registry, pod, container, env), 0
    for joined_by, words in commands:
        if joined_by == "&&" and status != 0:
            continue
        program, *arguments = words
        if program == "exit":
            status = int(arguments[0]) if arguments else status
            break
        status = _PROGRAMS[program](place, arguments)
    return Printed(place.lines, status)


def _commands(argv: list[str]) -> list[tuple[str, list[str]]] | None:
    """The simple commands, each with what stands before it; None for what only a real shell understands."""
    if len(argv) != 3 or argv[0] not in _SHELLS or argv[1] != "-c":
        return [(";", argv)] if argv else None
    lexer = shlex.shlex(argv[2].strip().replace("\n", ";"), posix=True, punctuation_chars=";&|<>()")
    lexer.whitespace_split, lexer.commenters = True, ""
    commands: list[tuple[str, list[str]]] = [(";", [])]
    try:
        for word in lexer:
            if word in (";", "&&"):
                commands.append((word, []))
            elif set(word) <= set(";&|<>()"):
                return None
            else:
                commands[-1][1].append(word)
    except ValueError:  # a quotation that does not end
        return None
    return [(joined_by, words) for joined_by, words in commands if words]


def _is_known(words: list[str]) -> bool:
    return words[0] in _PROGRAMS or (words[0] == "exit" and all(word.isdigit() for word in words[1:]))


def _env(place: _Place, arguments: list[str]) -> int:
    place.lines += [line for name, value in place.env.items() for line in f"{name}={value}".split("\n")]
    return 0


def _printenv(place: _Place, names: list[str]) -> int:
    if not names:
        return _env(place, names)
    place.lines += [place.env[name] for name in names if name in place.env]
    return 0 if all(name in place.env for name in names) else NOT_FOUND


def _echo(place: _Place, words: list[str]) -> int:
    place.lines.append(" ".join(_with_values(word, place.env) for word in words))
    return 0


def _cat(place: _Place, paths: list[str]) -> int:
    status = 0
    for path in (_with_values(path, place.env) for path in paths):
        text = _file(place, path)
        if text is None:
            place.lines.append(f"cat: can't open '{path}': No such file or directory")
            status = NOT_FOUND
        else:
            place.lines += text.splitlines()
    return status


def _hostname(place: _Place, arguments: list[str]) -> int:
    """The name of the pod, unless it has one of its own (pkg/kubelet/kubelet_pods.go, GeneratePodHostNameAndDomain)."""
    place.lines.append(place.pod["spec"].get("hostname") or place.pod["metadata"]["name"])
    return 0


_PROGRAMS: dict[str, Callable[[_Place, list[str]], int]] = {
    "env": _env,
    "printenv": _printenv,
    "echo": _echo,
    "cat": _cat,
    "hostname": _hostname,
    "true": lambda place, arguments: 0,
    "false": lambda place, arguments: 1,
}


def _with_values(word: str, env: Mapping[str, str]) -> str:
    return _VARIABLE.sub(lambda match: env.get(match[1] or match[2], ""), word)


def _file(place: _Place, path: str) -> str | None:
    """The text of a file of a ConfigMap or Secret that is mounted; None if there is none of that path."""
    wanted = PurePosixPath(path)
    for mount in place.container.get("volumeMounts") or ():
        at = PurePosixPath(mount["mountPath"])
        if mount.get("subPath") and wanted == at:
            name = mount["subPath"]
        elif at in wanted.parents and not mount.get("subPath"):
            name = str(wanted.relative_to(at))
        else:
            continue
        volume = next(one for one in place.pod["spec"]["volumes"] if one["name"] == mount["name"])
        return mounted_data(place.registry, place.pod["metadata"]["namespace"], volume).get(name)
    return None
