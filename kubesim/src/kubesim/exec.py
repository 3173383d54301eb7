# SPDX-License-Identifier: BSD-2-Clause
"""The subresource exec of pods over a WebSocket: commands run as processes of this machine, if a cluster allows it.

Each container has a directory of its own, which is its root: words of a command that are absolute paths are taken
below it. Each claim has one too, which stays when pods go. That is no sandbox: accounts that may exec act as the user
who runs the cluster (README, Commands in containers).
Source: apiserver pkg/util/proxy/streamtranslator.go and websocket.go, apimachinery pkg/util/remotecommand.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

from kubesim import errors, resources
from kubesim.auth import Attributes, User
from kubesim.backend import Backend
from kubesim.options import Query
from kubesim.request_info import RequestInfo
from kubesim.subresources import container_named

Object = dict[str, Any]
STDIN, STDOUT, STDERR, STATUS, CLOSE = 0, 1, 2, 3, 255
PIECE = 32 * 1024  # of io.Copy in Go


def answer(request: web.Request, backend: Backend, info: RequestInfo, query: Query, user: User) -> Command:
    """The command of a request; ApiError for what is refused before it runs."""
    # Since 1.35 a GET needs create as well (feature AuthorizePodWebsocketUpgradeCreatePermission).
    asked = Attributes("create", "", "pods", "exec", info.namespace, info.name)
    if not backend.authorizer.decide(user, asked).allowed:
        raise errors.forbidden("", "pods", info.name, "")
    pod = backend.registry.require(resources.by_kind("Pod"), info.namespace, info.name).obj
    container = container_named(pod, query.text("container"))
    if not pod["spec"].get("nodeName"):
        raise errors.bad_request(f"pod {info.name} does not have a host assigned")
    if request.headers.get("Upgrade", "").lower() != "websocket":
        raise errors.bad_request("Upgrade request required")
    if backend.exec_root is None:
        hint = "Start it with kubesim --exec, or as Cluster(exec_root=…)"
        raise errors.ApiError(500, "InternalError", f"this simulated cluster runs no commands. {hint}")
    words = query.pairs.get("command", []) if backend.kubelet.is_running(pod, container) else None
    return Command(backend, pod, container, backend.exec_root, words)


class Command(web.WebSocketResponse):
    """The answer to a request for exec. `words`: None if the container does not run."""

    def __init__(self, backend: Backend, pod: Object, container: str, root: Path, words: list[str] | None) -> None:
        super().__init__(protocols=backend.exec_protocols, max_msg_size=0)
        self.guarded = backend.exec_guarded
        self.pod, self.container, self.root, self.words = pod, container, root, words

    async def run(self, request: web.Request) -> web.StreamResponse:
        await self.prepare(request)
        await self.send_bytes(bytes([STDOUT]))
        if self.words is None:
            status = _internal(f'unable to upgrade connection: container not found ("{self.container}")')
        else:
            status = await _run(self, self.words)
        with contextlib.suppress(ConnectionError):
            await self.send_bytes(bytes([STATUS]) + json.dumps(status).encode())
        await self.close()
        return self


async def _run(websocket: Command, command: list[str]) -> Object:
    meta = websocket.pod["metadata"]
    spec = next(one for one in websocket.pod["spec"]["containers"] if one["name"] == websocket.container)
    place = websocket.root / meta["uid"] / websocket.container
    directory = _below(place, spec.get("workingDir", ""))
    claims = websocket.root / "claims" / meta["namespace"]
    for path, claim in _mounted_directories(place, websocket.pod["spec"], spec):
        if claim and not path.exists():
            (claims / claim).mkdir(parents=True, exist_ok=True)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.symlink_to(claims / claim)
        path.mkdir(parents=True, exist_ok=True)
    directory.mkdir(parents=True, exist_ok=True)
    # Variables such as TAR_OPTIONS and LD_PRELOAD make programs run others: who submits a job could act as its visitor.
    given = {} if websocket.guarded else {one["name"]: one.get("value", "") for one in spec.get("env") or ()}
    environment = {"PATH": os.environ["PATH"], "HOME": str(place), **given}
    words = [f"{place}{word}" if word.startswith("/") else word for word in command]
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), asyncio.subprocess.PIPE)
    try:
        process = await asyncio.create_subprocess_exec(*words, cwd=directory, env=environment, **pipes)
    except OSError:
        return _internal(
            "error executing command in container: failed to exec in container: OCI runtime exec failed: unable to "
            f'start container process: exec: "{command[0]}": executable file not found in $PATH'
        )
    assert process.stdin is not None
    feeding = asyncio.create_task(_feed(websocket, process.stdin))
    await asyncio.gather(_forward(websocket, STDOUT, process.stdout), _forward(websocket, STDERR, process.stderr))
    code = await process.wait()
    feeding.cancel()
    return _ended(code)


def _mounted_directories(place: Path, pod: Object, container: Object) -> list[tuple[Path, str | None]]:
    """Where a container finds a directory, and the claim whose files it has. Other volumes have files."""
    claims = {
        volume["name"]: volume.get("persistentVolumeClaim", {}).get("claimName")
        for volume in pod.get("volumes") or ()
        if "emptyDir" in volume
        or "persistentVolumeClaim" in volume
        or "Directory" in volume.get("hostPath", {}).get("type", "")
    }
    return [
        (_below(place, mount["mountPath"]), claims[mount["name"]])
        for mount in container.get("volumeMounts") or ()
        if mount["name"] in claims and "subPath" not in mount
    ]


def _below(place: Path, path: str) -> Path:
    """An absolute path of a container, never above its root."""
    return place / os.path.normpath(f"/{path}").lstrip("/")


async def _feed(websocket: web.WebSocketResponse, stdin: asyncio.StreamWriter) -> None:
    """Messages become stdin, until the client closes it or hangs up."""
    async for message in websocket:
        if message.type is not WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == CLOSE:
            break
        if channel == STDIN:
            stdin.write(data)
            with contextlib.suppress(ConnectionError):
                await stdin.drain()
    with contextlib.suppress(ConnectionError):
        stdin.close()
    await asyncio.Event().wait()


async def _forward(websocket: web.WebSocketResponse, channel: int, stream: asyncio.StreamReader | None) -> None:
    while stream and (data := await stream.read(PIECE)):
        with contextlib.suppress(ConnectionError):
            await websocket.send_bytes(bytes([channel]) + data)


def _ended(code: int) -> Object:
    """codeExitToStatusError."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    code = 128 - code if code < 0 else code
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def _internal(message: str) -> Object:
    text = f"Internal error occurred: {message}"
    details = {"causes": [{"message": message}]}
    return {
        "metadata": {},
        "status": "Failure",
        "message": text,
        "reason": "InternalError",
        "details": details,
        "code": 500,
    }
