# SPDX-License-Identifier: BSD-2-Clause
"""The HTTP face of the cluster: one handler for every path.

log -> faults -> authentication -> authorization -> routing -> rest.py, discovery.py or _sim.
Source of the order: apiserver pkg/server/config.go (DefaultBuildHandlerChain).
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs

from aiohttp import web

from kubesim import auth, control, discovery, errors, exec, media, proxy, resources
from kubesim.backend import Backend
from kubesim.calls import Answer, Call
from kubesim.controllers.kubelet_logs import FollowedLog
from kubesim.faults import ConnectionBroken
from kubesim.field import go_quote
from kubesim.media import Form
from kubesim.metrics.served import ADDONS as METRICS_ADDONS
from kubesim.options import Query
from kubesim.request_info import RequestInfo, parse_request
from kubesim.request_log import Entry
from kubesim.rest import Rest
from kubesim.store import encode
from kubesim.watch import Watch, error_line

#: Larger request bodies are refused (etcd's limit is 1.5 MB, the API server's 3 MB).
MAX_BODY = 3 * 1024 * 1024
#: How often an open watch looks whether its client is still there.
CLIENT_CHECK_SECONDS = 0.2


class Server:
    """Answers requests. start(host, port) gives the port; stop() ends open watches."""

    def __init__(self, backend: Backend) -> None:
        self.backend, self.rest = backend, Rest(backend)
        self.watches: set[Watch] = set()
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int, ssl_context: Any = None) -> int:
        app = web.Application(client_max_size=MAX_BODY)
        app.router.add_route("*", "/{path:.*}", self.answer)
        self._runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.5)
        await self._runner.setup()
        site = web.TCPSite(self._runner, host, port, ssl_context=ssl_context)
        await site.start()
        bound: int = self._runner.addresses[0][1]
        return bound

    async def stop(self) -> None:
        self.break_watches()
        if self._runner:
            await self._runner.cleanup()

    def break_watches(self) -> None:
        for watch in list(self.watches):
            watch.break_off()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """One request, from its arrival to the last byte of its answer."""
        query = parse_qs(request.query_string, keep_blank_values=True)
        info = parse_request(request.method, request.path, {k: v[0] for k, v in query.items()})
        if request.path.startswith(control.PREFIX):
            return await control.answer(request, self.backend)
        user = ""
        try:
            await self.backend.faults.inject(info)
            identity = self.backend.authenticator.identify(request.headers)
            identity = self.backend.authorizer.impersonate(identity, request.headers)
            user = identity.name
            self.backend.authorizer.require(identity, info)
            response = await self._dispatch(request, info, Query(query), identity)
        except ConnectionBroken:
            self._log(request, info, query, user, 0)
            if request.transport:
                request.transport.abort()
            raise asyncio.CancelledError from None
        except errors.ApiError as error:
            response = _refuse(error)
            if info.verb == "watch" and error.reason == "Expired":  # said within the stream
                response = _json(200, error_line(error), {})
        self._log(request, info, query, user, response.status)
        if isinstance(response, _Stream):
            return await response.send(request, self.watches)
        if isinstance(response, _LogStream):
            return await response.send(request)
        if isinstance(response, exec.Command):
            return await response.run(request)
        return response

    async def _dispatch(
        self, request: web.Request, info: RequestInfo, query: Query, user: auth.User
    ) -> web.StreamResponse:
        if not info.is_resource:
            return discovery.answer(self.backend, info.path, request.headers.get("Accept", ""))
        if METRICS_ADDONS.get(info.group) in self.backend.addons:
            return _json(200, encode(self.backend.served.answer(info, query.text("labelSelector"))), {})
        resource = resources.find(info.group, info.version, info.plural)
        if resource is None or not resources.is_served(resource, self.backend.addons, self.backend.without):
            if info.group not in self.backend.without and any(g == info.group for g, _ in resources.GROUP_VERSIONS):
                raise errors.no_such_path()
            return discovery.page_not_found()
        if resource.kind == "Pod" and info.subresource == "exec":
            return exec.answer(request, self.backend, info, query, user)
        if resource.kind in ("Pod", "Service") and info.subresource == "proxy":
            return await proxy.answer(request, self.backend, info, resource)
        form = media.negotiate(request.headers.get("Accept", ""))
        agent, kind = request.headers.get("User-Agent", ""), request.headers.get("Content-Type", "")
        call = Call(info, resource, query, form, user, agent, await _read_body(request), kind)
        try:
            response = _respond(self.rest.handle(call), form)
        except errors.ApiError as error:
            response = _refuse(error)
        for text in dict.fromkeys(call.warnings):
            response.headers.add("Warning", f"299 - {go_quote(text)}")
        return response

    def _log(self, request: web.Request, info: RequestInfo, query: dict[str, Any], user: str, status: int) -> None:
        self.backend.requests.add(
            Entry(
                request.method,
                request.path,
                request.query_string,
                info.verb,
                info.plural,
                info.namespace,
                info.name,
                info.subresource,
                user,
                request.headers.get("User-Agent", ""),
                "All" in query.get("dryRun", ()),
                status,
            )
        )


def _respond(answer: Answer, form: Form) -> web.StreamResponse:
    response: web.StreamResponse
    if isinstance(answer.body, Watch):
        response = _Stream(answer.body, answer.watch_seconds)
    elif isinstance(answer.body, FollowedLog):
        response = _LogStream(answer.body)
    elif answer.content_type:
        response = web.Response(body=answer.body, status=answer.status, headers={"Content-Type": answer.content_type})
    else:
        body = answer.body if isinstance(answer.body, bytes) else media.dump(answer.body, form)
        response = _json(answer.status, body, {}, form.media)
    return response


def _refuse(error: errors.ApiError) -> web.Response:
    return _json(error.status, media.dump(error.body, Form()), error.headers)


async def _read_body(request: web.Request) -> bytes:
    try:
        return await request.read() if request.can_read_body else b""
    except web.HTTPRequestEntityTooLarge:
        text = f"Request entity too large: limit is {MAX_BODY}"
        raise errors.ApiError(413, "RequestEntityTooLarge", text) from None


def _json(status: int, body: bytes, headers: dict[str, str], kind: str = media.JSON) -> web.Response:
    return web.Response(
        body=body, status=status, headers={"Content-Type": kind, "Cache-Control": "no-cache, private", **headers}
    )


class _LogStream(web.StreamResponse):
    """The answer to a request that follows a log."""

    def __init__(self, log: FollowedLog) -> None:
        super().__init__(headers={"Content-Type": "text/plain", "Cache-Control": "no-cache, private"})
        self.log = log

    async def send(self, request: web.Request) -> web.StreamResponse:
        self.enable_chunked_encoding()
        with suppress(ConnectionResetError, asyncio.CancelledError):
            await self.prepare(request)
            async for piece in self.log.pieces():
                if piece:
                    await self.write(piece)
                if request.transport is None or request.transport.is_closing():
                    break
            else:
                await self.write_eof()
        return self


class _Stream(web.StreamResponse):
    """The answer to a watch: chunked JSON, one event a line."""

    def __init__(self, watch: Watch, seconds: float) -> None:
        super().__init__(headers={"Content-Type": media.JSON, "Cache-Control": "no-cache, private"})
        self.watch, self.seconds = watch, seconds

    async def send(self, request: web.Request, open_watches: set[Watch]) -> web.StreamResponse:
        open_watches.add(self.watch)
        guard = asyncio.create_task(self._end_with_client(request))
        try:
            self.enable_chunked_encoding()
            await self.prepare(request)
            async for line in self.watch.lines(self.seconds):
                await self.write(line)
            await self.write_eof()
        except (ConnectionResetError, asyncio.CancelledError):
            pass
        finally:
            guard.cancel()
            self.watch.stop()
            open_watches.discard(self.watch)
        return self

    async def _end_with_client(self, request: web.Request) -> None:
        """A client that hangs up is noticed while there is nothing to send, as Go's server does (request context)."""
        while request.transport is not None and not request.transport.is_closing():
            await asyncio.sleep(CLIENT_CHECK_SECONDS)
        self.watch.break_off()
