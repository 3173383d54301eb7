# SPDX-License-Identifier: BSD-2-Clause
"""The API of the AWX that the environment variables name (CONTRIBUTING.md lists them), and what AWX gets from here."""

from __future__ import annotations

import base64
import json
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

import pytest

Object = dict[str, Any]
ENDED = ("successful", "failed", "error", "canceled")
PATIENCE = 600  # seconds; a job waits for the update of its project, and AWX for a pod
ADDRESS = os.environ.get("GPUCTL_TEST_AWX_ADDRESS", "127.0.0.1")
IMAGE = os.environ.get("GPUCTL_TEST_AWX_IMAGE", "registry.example.com/gpuctl-ee:1.0")


class Refused(Exception):
    """An answer other than 2xx, with its text."""


class Awx:
    """Requests below /api/v2/ in the name of an account that may create organizations and credential types."""

    def __init__(self, url: str, authorization: str) -> None:
        self.url = url.rstrip("/")
        self._headers = {"Authorization": authorization, "Content-Type": "application/json"}
        self._context = ssl.create_default_context()
        if os.environ.get("CONTROLLER_VERIFY_SSL", "true").lower() in ("false", "no", "0"):
            self._context.check_hostname, self._context.verify_mode = False, ssl.CERT_NONE

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer, decoded if it is JSON. ``path`` is one that AWX returned, or relative to /api/v2/."""
        path = path if path.startswith("/") else f"/api/v2/{path}"
        data = None if body is None else json.dumps(body).encode()
        request = Request(self.url + path, data, self._headers, method=method)
        context = self._context if self.url.startswith("https:") else None
        try:
            with urlopen(request, timeout=60, context=context) as answer:
                text, kind = answer.read().decode(), answer.headers.get_content_type()
        except HTTPError as error:
            raise Refused(f"{method} {path}: {error.code} {error.read().decode()}") from error
        return json.loads(text) if text and kind == "application/json" else text

    def list(self, path: str, **query: str | int) -> list[Object]:
        found: list[Object] = self.call("GET", f"{path}?{urlencode({**query, 'page_size': 200})}")["results"]
        return found

    def related(self, obj: Object, name: str) -> list[Object]:
        return self.list(obj["related"][name])

    def names(self, obj: Object, name: str) -> list[str]:
        return sorted(each["name"] for each in self.related(obj, name))

    def launch(
        self, kind: str, name: str, organization: str, answers: Mapping[str, Any], *, limit: str | None = None
    ) -> Object:
        """Launch by name, as docs/docsite/rst/guide_awx.rst describes. Returns the job that AWX has created."""
        named = quote(f"{name}++{organization}")
        asked = {"extra_vars": dict(answers)} if limit is None else {"extra_vars": dict(answers), "limit": limit}
        job: Object = self.call("POST", f"{kind}/{named}/launch/", asked)
        return job

    def approval(self, workflow: Object) -> Object:
        """What a workflow waits for, to be approved or denied, once it does."""

        def waiting() -> Object | None:
            for node in self.list(f"workflow_jobs/{workflow['id']}/workflow_nodes/"):
                job = node["summary_fields"].get("job", {})
                if job.get("type") == "workflow_approval":
                    found: Object = self.call("GET", node["related"]["job"])
                    return found
            ended = self.call("GET", workflow["url"])["status"]
            assert ended not in ENDED, f"the workflow has ended without one: {ended}"
            return None

        found: Object = wait_for(waiting, f"{workflow['name']} does not wait for approval")
        return found

    def ended(self, job: Object) -> Object:
        """The job, or update, after it has ended and all of its events are stored."""

        def finished() -> Object | None:
            now: Object = self.call("GET", job["url"])
            return now if now["status"] in ENDED and now.get("event_processing_finished", True) else None

        return wait_for(finished, f"{job['name']} has not ended")

    def output(self, job: Object) -> str:
        text = self.call("GET", f"{job['related']['stdout']}?format=txt")
        assert isinstance(text, str)
        return text


def wait_for(look: Callable[[], Any], failure: str) -> Any:
    """What ``look`` returns, once that is something."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        found = look()
        if found:
            return found
        time.sleep(1)
    raise AssertionError(f"{failure} after {PATIENCE} seconds")


def named_awx() -> Awx:
    """The AWX of the environment variables; without them the test is skipped."""
    url = os.environ.get("GPUCTL_TEST_AWX")
    if not url:
        pytest.skip("GPUCTL_TEST_AWX is not set: the URL of an AWX, such as https://awx.example.com")
    token = os.environ.get("CONTROLLER_OAUTH_TOKEN")
    account = [os.environ.get(f"CONTROLLER_{name}") for name in ("USERNAME", "PASSWORD")]
    if token:
        return Awx(url, f"Bearer {token}")
    if all(account):
        return Awx(url, basic(*map(str, account)))
    pytest.skip("GPUCTL_TEST_AWX needs CONTROLLER_OAUTH_TOKEN, or CONTROLLER_USERNAME and CONTROLLER_PASSWORD")


def basic(name: str, password: str) -> str:
    """The header of an account that has no token."""
    return "Basic " + base64.b64encode(f"{name}:{password}".encode()).decode()


@contextmanager
def served(directory: Path, posts: list[tuple[str, Any]]) -> Iterator[str]:
    """The URL of the files in a directory, such as a bare Git repository, for AWX. What is posted goes to ``posts``."""

    class Handler(SimpleHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posts.append((self.path, json.loads(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer((ADDRESS, 0), partial(Handler, directory=str(directory)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://{ADDRESS}:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
