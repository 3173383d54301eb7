# SPDX-License-Identifier: BSD-2-Clause
"""AWX as the collection awx.awx sees it: an API that keeps what it is given and refuses what AWX refuses of it.

Only what our configuration uses. Rules are those of AWX 24 (awx/api/serializers.py, awx/api/views, awx/main/fields.py).
"""

from __future__ import annotations

import json
import re
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Object = dict[str, Any]
TEMPLATES = ("job_templates", "workflow_job_templates", "projects", "inventory_sources", "workflow_approval_templates")
DEFAULT_TYPES = {"integer": int, "float": (float, int)}  # of a question; all others are texts
REVISION = "c0ffee"  # what the project's last update has checked out
QUESTION_TYPES = ("text", "textarea", "password", "multiplechoice", "multiselect", "integer", "float")


class Rejected(Exception):
    """What AWX answers with 400."""


@dataclass
class Awx:
    """``objects`` by collection and id; ``writes`` is what changed them. ``project`` is the checked-out project."""

    project: Path
    objects: dict[str, dict[int, Object]] = field(default_factory=lambda: defaultdict(dict))
    links: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    surveys: dict[int, Object] = field(default_factory=lambda: defaultdict(dict))
    writes: list[str] = field(default_factory=list)
    ids: Iterator[int] = field(default_factory=lambda: count(1))

    def create(self, kind: str, given: Mapping[str, Any]) -> Object:
        check = CHECKS.get(kind)
        if check:
            check(self, given)
        number = next(self.ids)
        url = f"/api/v2/{kind}/{number}/"
        obj = {
            "id": number,
            "type": kind.removesuffix("s"),
            "url": url,
            "related": {"survey_spec": f"{url}survey_spec/", "update": f"{url}update/"},
            "summary_fields": {},
            "scm_revision": "",
            **given,
        }
        self.objects[kind][number] = obj
        return obj

    def named(self, kind: str, name: str) -> Object:
        (obj,) = (obj for obj in self.objects[kind].values() if obj.get("name") == name)
        return obj

    def find(self, kind: str, query: Mapping[str, str]) -> list[Object]:
        kinds = TEMPLATES if kind == "unified_job_templates" else (kind,)
        everything = [obj for each in kinds for obj in self.objects[each].values()]
        names = {value for key, value in query.items() if key.startswith("or__")}
        plain = {key: value for key, value in query.items() if not key.startswith("or__")}
        return [
            _hidden(obj)
            for obj in everything
            if all(str(obj.get(key)) == value for key, value in plain.items())
            and (not names or names & {str(obj["id"]), obj.get("name")})
        ]

    def answer(self, method: str, path: str, query: Mapping[str, str], body: Any) -> tuple[int, Any]:
        """Status and body for a request below /api/v2/."""
        if method != "GET":
            self.writes.append(f"{method} {path}")
        kind, *rest = path.strip("/").split("/")
        if not rest:
            if method == "POST":
                return 201, _hidden(self.create(kind, body))
            found = self.find(kind, query)
            return 200, {"count": len(found), "next": None, "results": found}
        obj = self.objects[kind][int(rest[0])]
        if len(rest) == 1:
            if method == "PATCH":
                obj.update(body)
            return 200, _hidden(obj)
        return self._below(method, obj, kind, rest[1], body)

    def _below(self, method: str, obj: Object, kind: str, name: str, body: Any) -> tuple[int, Any]:
        if name == "survey_spec":
            if method == "POST":
                check_survey(body)
                self.surveys[obj["id"]] = body
            elif method == "DELETE":
                self.surveys.pop(obj["id"], None)
            return 200, self.surveys.get(obj["id"], {})
        if name == "update":
            obj["scm_revision"] = REVISION
            done = {
                "status": "successful",
                "failed": False,
                "event_processing_finished": True,
                "scm_revision": REVISION,
            }
            return 202, self.create("project_updates", done)
        if name == "create_approval_template":
            kept = {key: value for key, value in body.items() if key in ("name", "description", "timeout")}
            approval = self.create("workflow_approval_templates", kept)
            obj["related"]["unified_job_template"] = approval["url"]
            return 201, approval
        linked = self.links[f"{kind}/{obj['id']}/{name}"]
        if method == "POST":
            (linked.remove if body.get("disassociate") else linked.append)(body["id"])
            return 204, None
        return 200, {"count": len(linked), "next": None, "results": [{"id": number} for number in linked]}


def _hidden(obj: Object) -> Object:
    """Secrets as AWX shows them."""
    if "inputs" not in obj or "credential_type" not in obj:
        return obj
    return {**obj, "inputs": dict.fromkeys(obj["inputs"], "$encrypted$")}


def check_credential(awx: Awx, given: Mapping[str, Any]) -> None:
    fields = awx.objects["credential_types"][given["credential_type"]]["inputs"]
    known, needed = {entry["id"] for entry in fields["fields"]}, set(fields["required"])
    if not needed <= given["inputs"].keys() <= known:
        raise Rejected(f"inputs are {sorted(given['inputs'])}, fields are {sorted(known)}, needed are {sorted(needed)}")


def check_credential_type(awx: Awx, given: Mapping[str, Any]) -> None:
    """Injectors may speak of fields and of files that the type itself makes (CredentialTypeInjectorField)."""
    inputs, injectors = given["inputs"], given["injectors"]
    unknown = {key for entry in inputs["fields"] for key in entry} - {
        "id", "label", "type", "format", "secret", "multiline", "help_text", "ask_at_runtime", "default", "choices",
    }  # fmt: skip
    formats = {entry["format"] for entry in inputs["fields"] if "format" in entry}
    ids = {entry["id"] for entry in inputs["fields"]}
    files = {f"tower.filename.{name.removeprefix('template.')}" for name in injectors.get("file", {})}
    templates = [*injectors.get("env", {}).values(), *injectors.get("file", {}).values()]
    spoken = {name for text in templates for name in re.findall(r"{{ ([\w.]+)", text)}
    if unknown or not spoken <= ids | files or not set(inputs["required"]) <= ids:
        raise Rejected(f"unknown keys {unknown}, unknown variables {spoken - ids - files}")
    if not formats <= {"ssh_private_key", "url"}:
        raise Rejected(f"formats {formats}")


def check_job_template(awx: Awx, given: Mapping[str, Any]) -> None:
    updated = awx.objects["projects"][given["project"]]["scm_revision"]
    if not (updated and (awx.project / given["playbook"]).is_file()):
        raise Rejected("Playbook not found for project.")
    if "{{" in given["extra_vars"]:
        raise Rejected("Jinja in extra variables")


def check_inventory_source(awx: Awx, given: Mapping[str, Any]) -> None:
    if not (awx.project / given["source_path"]).is_file():
        raise Rejected("source_path is not in the project")


def check_schedule(awx: Awx, given: Mapping[str, Any]) -> None:
    """awx/api/serializers.py, validate_rrule: a start with a time zone, and an interval.

    LaunchConfigurationBaseSerializer: what is required needs an answer, whatever the default; and no other variables.
    """
    questions = awx.surveys[given["unified_job_template"]].get("spec", [])
    required = {question["variable"] for question in questions if question["required"]}
    answers = given.get("extra_data") or {}
    if not required <= answers.keys() <= {question["variable"] for question in questions}:
        raise Rejected(f"answers are {sorted(answers)}, needed are {sorted(required)}")
    if not re.fullmatch(r"DTSTART(;TZID=\S+)?:\d{8}T\d{6}Z? RRULE:\S*INTERVAL=\d+\S*", given["rrule"]):
        raise Rejected(f"rrule {given['rrule']}")


CHECKS: dict[str, Callable[[Awx, Mapping[str, Any]], None]] = {
    "credentials": check_credential,
    "credential_types": check_credential_type,
    "inventory_sources": check_inventory_source,
    "job_templates": check_job_template,
    "schedules": check_schedule,
}


def check_survey(spec: Mapping[str, Any]) -> None:
    """JobTemplateSurveySpec: what the questions of a survey have to be."""
    if not (isinstance(spec.get("name"), str) and isinstance(spec.get("description"), str) and spec.get("spec")):
        raise Rejected("name, description and spec are needed")
    variables = [question.get("variable") for question in spec["spec"]]
    if len(variables) != len(set(variables)):
        raise Rejected(f"variables twice: {variables}")
    for question in spec["spec"]:
        texts = all(isinstance(question.get(key), str) for key in ("type", "question_name", "variable"))
        if not texts or not isinstance(question.get("required"), bool) or question["type"] not in QUESTION_TYPES:
            raise Rejected(f"not a question: {question}")
        for key in ("min", "max"):
            if not isinstance(question.get(key), int | None):
                raise Rejected(f"{key} of {question['variable']} is not a whole number")
        default = question.get("default", "")
        if default != "" and not isinstance(default, DEFAULT_TYPES.get(question["type"], str)):
            raise Rejected(f"default of {question['variable']} is {default!r}")
        if question["type"] in ("multiplechoice", "multiselect"):
            if "choices" not in question or any(item not in question["choices"] for item in default.splitlines()):
                raise Rejected(f"choices of {question['variable']}")
            if not all(isinstance(choice, str) for choice in question["choices"]):
                raise Rejected(f"a choice of {question['variable']} is not a text")


@contextmanager
def running(awx: Awx) -> Iterator[str]:
    """The URL at which the double answers while the block runs."""

    class Handler(BaseHTTPRequestHandler):
        def handle_one(self) -> None:
            split = urlsplit(self.path)
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            try:
                status, answer = awx.answer(
                    self.command, split.path.removeprefix("/api/v2/"), dict(parse_qsl(split.query)), body
                )
            except Rejected as refusal:
                status, answer = 400, {"error": str(refusal)}
            data = b"" if answer is None else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PATCH = do_DELETE = handle_one

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
