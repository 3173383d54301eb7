# SPDX-License-Identifier: BSD-2-Clause
"""What servers of older versions answer otherwise: by version, recording and step, the response not that of 1.36.

    cd kubesim/tests && python -m contract.older URL TOKEN 1.31 [NAME…]

replays recordings against a server of that version and records what differs, in older/VERSION.json.gz. The other rules
of a step stay: of one that compares a subset, the same keys are recorded.
"""

from __future__ import annotations

import gzip
import json
import sys
import time
from pathlib import Path
from typing import Any

from contract import recordings, replay
from contract.matcher import Matcher, Rules, fill
from contract.record import placeholders

FOLDER = recordings.FOLDER / "older"
ABSENT = "<absent>"
Object = dict[str, Any]


def versions() -> list[str]:
    return sorted(path.name.removesuffix(".json.gz") for path in FOLDER.glob("*.json.gz"))


def load(version: str) -> dict[str, dict[str, Object]]:
    """By recording and step what differs; a recording of which nothing does is there too."""
    found: dict[str, dict[str, Object]] = json.loads(gzip.decompress(_file(version).read_bytes()))
    return found


def recording_of(version: str, name: str) -> Object:
    """A recording as a server of a version answers it."""
    recording = recordings.load(name)
    for index, response in load(version)[name].items():
        recording["steps"][int(index)]["response"] = compared(response)
    return recording


def compared(value: Any) -> Any:
    """What the simulator has to answer of it: refusals in any words, which change with the versions of Go and its
    libraries, and templates without the null of creationTimestamp, which Go wrote before Kubernetes 1.34."""
    if isinstance(value, list):
        return [compared(each) for each in value]
    if not isinstance(value, dict):
        return value
    is_told = value.get("kind") == "Status" or ("reason" in value and "field" in value)
    return {
        key: "<text>" if is_told and key == "message" else compared(each)
        for key, each in value.items()
        if (key, each) != ("creationTimestamp", None)
    }


def _file(version: str) -> Path:
    return FOLDER / f"{version}.json.gz"


class Recorder(replay.Replay):
    """Keeps the last answer of each step."""

    last: replay.Answer

    def send(self, *args: Any, **kwargs: Any) -> replay.Answer:
        self.last = super().send(*args, **kwargs)
        return self.last


def record(url: str, token: str, version: str, *names: str) -> None:
    found = load(version) if _file(version).exists() else {}
    for name in names or recordings.names():
        own: dict[str, Object] = {}
        found[name] = own
        recording = recordings.load(name)
        session = Recorder(url, token, recording)
        for index, step in enumerate(recording["steps"]):
            time.sleep(step.get("wait", 0))
            if differences := session.step(step):
                own[str(index)] = _response(session, step)
                print(replay.step_id(name, index, step), *differences, sep="\n    ", flush=True)
        session.clean_up()
    text = recordings.text(dict(sorted(found.items())))
    _file(version).write_bytes(gzip.compress(f"{text}\n".encode(), mtime=0))


def _response(session: Recorder, step: Object) -> Object:
    answer, wanted = session.last, step["response"]
    named = {value: f"{{{{{name}}}}}" for name, value in session.variables.items() if isinstance(value, str)}
    body = placeholders(answer.body, named)
    # A refusal in place of an object, or the other way round, is recorded as a whole.
    if answer.status == wanted.get("status", answer.status) and "body" in wanted:
        body = alike(wanted["body"], body, session.variables, subset=step.get("match") == "subset")
    headers = {key: ", ".join(answer.headers.get_all(key, [])) for key in wanted.get("headers", {})}
    return {"status": answer.status, **({"headers": headers} if headers else {}), "body": body}


def alike(wanted: Any, given: Any, variables: Object, *, subset: bool) -> Any:
    """What is given, written as what is recorded where that matches it; of a subset, the same keys."""
    if isinstance(wanted, dict) and isinstance(given, dict):
        found = {
            key: alike(value, given[key], variables, subset=subset) if key in given else ABSENT
            for key, value in wanted.items()
            if subset or key in given
        }
        return {**(found if subset else {**given, **found})}
    if isinstance(wanted, list) and isinstance(given, list) and len(wanted) == len(given):
        return [alike(*pair, variables, subset=subset) for pair in zip(wanted, given, strict=True)]
    matches = isinstance(wanted, str) and (wanted == given or _matches(wanted, given, variables))
    return wanted if matches else given


def _matches(wanted: str, given: Any, variables: Object) -> bool:
    if isinstance(given, str) and given.startswith("{{") and "<" in wanted:
        return True  # captured by this very step
    try:
        return not Matcher(Rules()).differences(fill(wanted, variables), given)
    except KeyError:  # of a variable that was not captured
        return False


if __name__ == "__main__":
    record(*sys.argv[1:])
