# SPDX-License-Identifier: BSD-2-Clause
"""A server that answers as the HTTP API of Grafana documents: folders, and dashboards by uid.

https://grafana.com/docs/grafana/latest/developers/http_api/ (dashboard, folder, other). It stores what it gets, counts
the version of a dashboard up, and refuses an outdated one without ``overwrite`` (412), a folder that is not there (400)
and anyone without the token (401).
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

VERSION = "11.6.1"
Answer = tuple[int, Any]


@dataclass
class Grafana:
    url: str = ""
    token: str = "glsa_of_the_tests"
    folders: list[dict[str, Any]] = field(default_factory=list)
    #: By uid: the dashboard, and the uid of its folder.
    dashboards: dict[str, dict[str, Any]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)

    def answer(self, method: str, path: str, authorization: str, body: Any) -> Answer:
        self.requests.append((method, path))
        if path == "/api/health":
            return 200, {"database": "ok", "version": VERSION, "commit": "0"}
        if authorization != f"Bearer {self.token}":
            return 401, {"message": "Invalid API key", "messageId": "api-key.invalid", "statusCode": 401}
        if path == "/api/frontend/settings":
            return 200, {"buildInfo": {"version": VERSION, "edition": "Open Source"}}
        if path == "/api/folders":
            return self._folder(body) if method == "POST" else (200, self.folders)
        if path == "/api/dashboards/db" and method == "POST":
            return self._save(body)
        return self._dashboard(method, path.removeprefix("/api/dashboards/uid/"))

    def _folder(self, body: Any) -> Answer:
        if not body.get("title"):
            return 400, {"message": "folder title cannot be empty"}
        number = len(self.folders) + 1
        created = {"id": number, "uid": body.get("uid") or f"folder{number}", "title": body["title"]}
        self.folders.append(created)
        return 200, created

    def _save(self, body: Any) -> Answer:
        given = body["dashboard"]
        uid, old = given.get("uid"), self.dashboards.get(given.get("uid"))
        folder = next((one for one in self.folders if one["id"] == body.get("folderId")), None)
        if not given.get("title"):
            return 400, {"message": "Dashboard title cannot be empty", "status": "empty-name"}
        if folder is None:
            return 400, {"message": "folder not found", "status": "not-found"}
        if old is not None and not body.get("overwrite") and given.get("version") != old["dashboard"]["version"]:
            return 412, {"message": "The dashboard has been changed by someone else", "status": "version-mismatch"}
        number = old["dashboard"]["id"] if old else len(self.dashboards) + 1
        version = old["dashboard"]["version"] + 1 if old else 1
        self.dashboards[uid] = {"dashboard": {**given, "id": number, "version": version}, "folder": folder}
        saved = {"id": number, "uid": uid, "url": f"/d/{uid}/x", "status": "success", "version": version, "slug": "x"}
        return 200, {**saved, "folderUid": folder["uid"]}

    def _dashboard(self, method: str, uid: str) -> Answer:
        stored = self.dashboards.get(uid)
        if stored is None:
            return 404, {"message": "Dashboard not found"}
        if method == "DELETE":
            del self.dashboards[uid]
            return 200, {"title": stored["dashboard"]["title"], "message": "Dashboard deleted", "id": 1}
        folder = stored["folder"]
        meta = {"folderId": folder["id"], "folderUid": folder["uid"], "folderTitle": folder["title"], "canSave": True}
        return 200, {"dashboard": stored["dashboard"], "meta": {**meta, "version": stored["dashboard"]["version"]}}


@contextmanager
def grafana() -> Iterator[Grafana]:
    """On a thread of its own."""
    state = Grafana()

    class Handler(BaseHTTPRequestHandler):
        def _serve(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            authorization = self.headers.get("Authorization", "")
            status, answer = state.answer(self.command, self.path, authorization, json.loads(content or b"null"))
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_DELETE = _serve

        def log_message(self, *arguments: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
