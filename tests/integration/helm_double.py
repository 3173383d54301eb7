#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A program that kubernetes.core.helm takes for helm 3: it records how it is called, and remembers releases.

It installs nothing. What a chart makes of its values is not known from it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import yaml

STATE = Path(os.environ["GPUCTL_TEST_HELM"])


def main(words: list[str]) -> None:
    state = json.loads(STATE.read_text()) if STATE.exists() else {"calls": [], "releases": {}}
    options = [word for word in words if word.startswith("-")]
    files = [yaml.safe_load(Path(word[3:]).read_text()) for word in options if word.startswith("-f=")]
    (values,) = files or [{}]
    state["calls"].append({"words": words, "values": values})
    print(answer([word for word in words if word not in options], words, values, state["releases"]))
    STATE.write_text(json.dumps(state))


def answer(command: list[str], words: list[str], values: object, releases: dict[str, dict[str, object]]) -> str:
    version = next((word.partition("=")[2] for word in words if word.startswith("--version=")), "")
    if command == ["version"]:
        return 'version.BuildInfo{Version:"v3.18.6", GitCommit:"0", GitTreeState:"clean", GoVersion:"go1.24"}'
    if command[:1] == ["list"]:
        return yaml.safe_dump([{**facts, "name": name} for name, facts in releases.items() if name in command])
    if command[:2] == ["get", "values"]:
        return yaml.safe_dump(releases[command[-1]]["values"])
    if command[:2] == ["show", "chart"]:
        return yaml.safe_dump({"name": command[2], "version": version, "appVersion": version})
    if command[:1] == ["upgrade"]:
        name, chart = command[1:]
        facts = {"namespace": os.environ.get("HELM_NAMESPACE", ""), "revision": "1", "status": "deployed"}
        releases[name] = {**facts, "chart": f"{chart}-{version}", "app_version": version, "values": values}
        return f"Release {name!r} has been upgraded."
    if command[:1] == ["uninstall"]:
        del releases[command[1]]
        return "release uninstalled"
    if command == ["plugin", "list"]:
        return "NAME\tVERSION\tDESCRIPTION"
    raise SystemExit(f"unexpected: {words}")


if __name__ == "__main__":
    main(sys.argv[1:])
