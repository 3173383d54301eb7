# SPDX-License-Identifier: BSD-2-Clause
"""Send the steps of a recording to a server and compare its answers, by the rules of README.md.

As a program, against any server: cd kubesim/tests && python -m contract.replay URL TOKEN [name…]
"""

from __future__ import annotations

import http.client
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from contract import recordings
from contract.matcher import Matcher, Rules, at_path, fill

POLL_SECONDS = 0.05
#: After `expect` holds, the answer may take this long to match in full.
SETTLE_SECONDS = 5.0
#: Once a step has failed, later ones rarely come true: they are not waited for longer than this.
IMPATIENT_SECONDS = 3.0
Object = dict[str, Any]


def step_id(name: str, index: int, step: Object) -> str:
    """What a step is called in test reports: apply-02-the same again…"""
    note = step.get("note") or "{method} {path}".format(**_request_of(step)).partition("?")[0]
    return f"{name}-{index:02d}-{note[:60]}".replace("[", "(").replace("]", ")").replace("::", ":")


@dataclass
class Answer:
    status: int
    headers: http.client.HTTPMessage
    body: Any


class Replay:
    """One run of one recording. run() gives the differences of each step: an empty list is a match."""

    def __init__(self, url: str, token: str, recording: Object) -> None:
        self.address, self.token, self.recording = urlsplit(url), token, recording
        self.variables: dict[str, Any] = {}
        self.failed = False

    def run(self) -> Iterator[list[str]]:
        for step in self.recording["steps"]:
            time.sleep(step.get("wait", 0))
            found = self.step(step)
            self.failed = self.failed or bool(found)
            yield found

    def clean_up(self) -> None:
        for step in self.recording["cleanup"]:
            self.step({"response": {}, **step})

    def step(self, step: Object) -> list[str]:
        try:
            if "until" in step:
                return self._poll(step)
            answer = self.send(step["request"], step.get("during", []), stream="stream" in step["response"])
            return self._compare(step, answer)
        except (OSError, http.client.HTTPException, KeyError) as error:
            return [f"{type(error).__name__}: {error}"]

    def awaited(self, until: Object) -> Answer:
        """The first answer that `until` holds for."""
        deadline = time.monotonic() + until["within_seconds"]
        while True:
            answer = self.send(until["request"])
            problems = self._awaited(until, answer)
            if not problems:
                return answer
            if time.monotonic() > deadline:
                raise TimeoutError("; ".join(problems))
            time.sleep(POLL_SECONDS)

    def _poll(self, step: Object) -> list[str]:
        until = step["until"]
        patience = until["within_seconds"]
        deadline = time.monotonic() + (min(patience, IMPATIENT_SECONDS) if self.failed else patience)
        held = False
        while True:
            answer = self.send(until["request"])
            problems = self._awaited(until, answer)
            if not problems:
                if not held:
                    held, deadline = True, time.monotonic() + SETTLE_SECONDS
                problems = self._compare(step, answer)
                if not problems:
                    return []
            if time.monotonic() > deadline:
                return problems
            time.sleep(POLL_SECONDS)

    def _awaited(self, until: Object, answer: Answer) -> list[str]:
        if "status" in until and answer.status != until["status"]:
            return [f"status: waited for {until['status']}, got {answer.status}: {str(answer.body)[:300]}"]
        if "expect" not in until:
            return []
        return Matcher(Rules(subset=True), contained=True).differences(
            fill(until["expect"], self.variables), answer.body
        )

    def _compare(self, step: Object, answer: Answer) -> list[str]:
        wanted, rules = step["response"], Matcher(Rules.of(step))
        found = []
        if answer.status != wanted.get("status", answer.status):
            found.append(f"status: expected {wanted['status']}, got {answer.status}: {str(answer.body)[:600]}")
        for name, value in wanted.get("headers", {}).items():
            have = ", ".join(answer.headers.get_all(name, []))
            found += [f"header {name}: {text}" for text in rules.differences(fill(value, self.variables), have)]
        for part in ("body", "stream"):
            if part in wanted and not found:
                found += rules.differences(fill(wanted[part], self.variables), answer.body)
        for path, other in step.get("differs", {}).items():
            if at_path(answer.body, path) == fill(other, self.variables):
                found.append(f"{path}: still {at_path(answer.body, path)!r}")
        for name, path in step.get("capture", {}).items():
            self.variables[name] = at_path(answer.body, path)
        return found

    # --- HTTP ---

    def _connect(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self.address.scheme == "https" else http.client.HTTPConnection
        return kind(self.address.hostname or "", self.address.port, timeout=60)

    def send(self, request: Object, during: list[Object] | None = None, *, stream: bool = False) -> Answer:
        connection = self._connect()
        try:
            self._start(connection, request)
            response = connection.getresponse()
            for other in during or ():
                self.send(other)
            raw = response.read()
        finally:
            connection.close()
        lines = [line for line in raw.splitlines() if line.strip()]
        body = [json.loads(line) for line in lines] if stream else _data(raw)
        return Answer(response.status, response.headers, body)

    def _start(self, connection: http.client.HTTPConnection, request: Object) -> None:
        given = fill(request.get("headers", {}), self.variables)
        headers = {"User-Agent": "contract/1", "Accept": "application/json", "Authorization": f"Bearer {self.token}"}
        body = fill(request.get("body"), self.variables)
        if body is not None:
            headers["Content-Type"] = "application/json"
            body = body if isinstance(body, str) else json.dumps(body)
        headers.update(given)
        headers = {name: value for name, value in headers.items() if value is not None}
        path = fill(request["path"], self.variables, url=True)
        connection.request(request["method"], path, body.encode() if body is not None else None, headers)


def _data(raw: bytes) -> Any:
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode()


def _request_of(step: Object) -> Object:
    request: Object = step["until"]["request"] if "until" in step else step["request"]
    return request


def main(url: str, token: str, *names: str) -> int:
    passed = total = 0
    for name in names or recordings.names():
        recording = recordings.load(name)
        replay = Replay(url, token, recording)
        for index, (step, differences) in enumerate(zip(recording["steps"], replay.run(), strict=True)):
            total += 1
            passed += not differences
            if differences:
                print(step_id(name, index, step), *differences, sep="\n    ")
        replay.clean_up()
    print(f"{passed} of {total} steps")
    return 0 if passed == total else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
