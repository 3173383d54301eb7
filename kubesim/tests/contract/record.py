# SPDX-License-Identifier: BSD-2-Clause
"""Record the answers of a real API server: fill in the `response` of each step that has none.

    cd kubesim/tests && python -m contract.record URL TOKEN NAME…

Write the new steps into NAME.json without a `response` (`python -m contract.recordings unpack NAME` if there are
others), run this, and read what it wrote (`show NAME`). Values that differ between runs become placeholders; `match`,
`ignore` and `wait` are yours to choose (README.md). Of a step that polls, the answer that `expect` holds for is
recorded: all of it, or the parts that the step's `keep` names. Steps that watch are replayed, not recorded.
"""

from __future__ import annotations

import re
import sys
import time
from typing import Any

from contract import recordings, replay
from contract.matcher import at_path

#: Keys whose values differ from run to run.
PLACEHOLDERS = {
    "uid": "<uid>",
    "controller-uid": "<uid>",
    "batch.kubernetes.io/controller-uid": "<uid>",
    "resourceVersion": "<rv>",
    "clusterIP": "<ip>",
    "nodePort": "<port>",
    "healthCheckNodePort": "<port>",
    "continue": "<opaque>",
}
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")


def record(url: str, token: str, name: str) -> None:
    recording = recordings.load(name)
    session = replay.Replay(url, token, recording)
    try:
        for step in recording["steps"]:
            time.sleep(step.get("wait", 0))
            if "response" not in step:
                step["response"] = answer(session, step)
                continue
            for difference in session.step(step):
                print(f"{name}: {step.get('note', step.get('request'))}: {difference}", file=sys.stderr)
    finally:
        session.clean_up()
    recordings.save(name, recording)


def answer(session: replay.Replay, step: dict[str, Any]) -> dict[str, Any]:
    """Send a step's request, take what it captures, and return the response to record."""
    given = session.awaited(step["until"]) if "until" in step else session.send(step["request"])
    captured = {variable: at_path(given.body, path) for variable, path in step.get("capture", {}).items()}
    named = {value: f"{{{{{variable}}}}}" for variable, value in session.variables.items() if isinstance(value, str)}
    body = placeholders(kept(given.body, step.pop("keep", None)), named)
    session.variables.update(captured)
    warnings = given.headers.get_all("Warning")
    headers = {"headers": {"Warning": ", ".join(warnings)}} if warnings else {}
    return {"status": given.status, **headers, "body": body}


def kept(body: Any, names: list[str] | None) -> Any:
    """The parts of an object that a step names: everything, or these keys (status/conditions: of an object inside)."""
    if names is None:
        return body
    found: dict[str, Any] = {}
    for name in names:
        place, source = found, body
        *outer, last = name.split("/")
        for key in outer:
            place, source = place.setdefault(key, {}), source[key]
        if last in source:
            place[last] = source[last]
    return found


def placeholders(value: Any, variables: dict[Any, str], key: str = "") -> Any:
    """The value with placeholders for what differs from run to run, and without managedFields."""
    if isinstance(value, dict):
        return {name: placeholders(each, variables, name) for name, each in value.items() if name != "managedFields"}
    if isinstance(value, list):
        return [placeholders(each, variables, "clusterIP" if key == "clusterIPs" else "") for each in value]
    if key in PLACEHOLDERS and value not in ("", "None"):
        return variables.get(value, PLACEHOLDERS[key])
    if isinstance(value, str):
        return variables.get(value) or ("<time>" if _TIME.fullmatch(value) else value)
    return value


if __name__ == "__main__":
    for each in sys.argv[3:]:
        record(sys.argv[1], sys.argv[2], each)
