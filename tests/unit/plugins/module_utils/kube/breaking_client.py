# SPDX-License-Identifier: BSD-2-Clause
"""A client that lets others act, loses responses or loses the server, before or after chosen writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ConnectionProblem
from kubesim import Cluster


class BreakingClient(Client):
    """``before`` has what happens before the write of an object, whose response is lost if ``lost`` has its name.

    Once an object of ``fatal`` was written, the server is gone.
    """

    def __init__(self, cluster: Cluster) -> None:
        token = {"Authorization": f"Bearer {cluster.token}"}
        super().__init__(Connection(cluster.url, authorization=lambda: token, concurrency=1))
        self.before: dict[str, Callable[[], object]] = {}
        self.lost: set[str] = set()
        self.fatal: set[str] = set()
        self.is_gone = False

    def create(self, obj: dict[str, Any], **options: Any) -> Any:
        return self._write(obj["metadata"], options, lambda: super(BreakingClient, self).create(obj, **options))

    def apply(self, obj: dict[str, Any], **options: Any) -> Any:
        return self._write(obj["metadata"], options, lambda: super(BreakingClient, self).apply(obj, **options))

    def merge_patch(self, resource: Any, metadata: Any, patch: Any, **options: Any) -> Any:
        def send() -> Any:
            return super(BreakingClient, self).merge_patch(resource, metadata, patch, **options)

        return self._write(metadata, options, send)

    def delete(self, resource: Any, metadata: Any, **options: Any) -> Any:
        def send() -> Any:
            return super(BreakingClient, self).delete(resource, metadata, **options)

        return self._write(metadata, options, send)

    def get(self, *what: Any) -> Any:
        self._require_server()
        return super().get(*what)

    def list_objects(self, *what: Any, **options: Any) -> Any:
        self._require_server()
        return super().list_objects(*what, **options)

    def _write(self, metadata: Any, options: dict[str, Any], send: Callable[[], Any]) -> Any:
        self._require_server()
        name = metadata["name"]
        if options.get("dry_run"):
            return send()
        self.before.pop(name, lambda: None)()
        answer = send()
        if name in self.lost | self.fatal:
            self.is_gone = name in self.fatal
            problem = ConnectionProblem("cannot reach the API server.")
            problem.may_be_written = True
            raise problem
        return answer

    def _require_server(self) -> None:
        if self.is_gone:
            raise ConnectionProblem("cannot reach the API server.")
