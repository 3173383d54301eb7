# SPDX-License-Identifier: BSD-2-Clause
"""The operations on the objects of an API server: list, watch, get, apply, patch, create, delete.

Every write can safely be sent twice, so the transport may retry each: server-side apply is idempotent, a deletion names
the uid of its object, and a creation reports an object that exists.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar

from ..labels import FIELD_MANAGER
from .answer import Expected
from .connection import Connection
from .connection_options import chosen_kubeconfig, resolve_connection, resolve_options
from .errors import AnswerTooLarge, ApiError, ListTooLarge
from .limits import WATCH
from .list_limits import ListLimits, ListsInProgress
from .resources import Resource, resource_of
from .shapes import MalformedObject, UnreadableObject, malformation
from .transport import APPLY_PATCH, JSON, Transport

if TYPE_CHECKING:
    from .watch import Watch

PAGE_SIZE = 500  # as kubectl and client-go ask for (tools/pager)

_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_METADATA = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
_MERGE_PATCH = "application/merge-patch+json"
_JSON_PATCH = "application/json-patch+json"

T = TypeVar("T")


class Client:
    """One API server. Every method raises ApiError for a rejected request and ConnectionProblem for no response."""

    def __init__(
        self,
        connection: Connection,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.concurrency = connection.concurrency  # the number of requests to send at once
        self.warning = connection.warning
        self.connection = connection
        self.namespace = connection.namespace
        self.request_timeout = connection.request_timeout
        self.transport = Transport(connection, sleep, clock)
        self.lists = ListsInProgress(connection.server, clock)
        # What is read once for each connection, by the name of what reads it.
        self.remembered: dict[str, Any] = {}
        # What lists have left out since the task began, by kind, namespace and name.
        self.malformed_objects: dict[tuple[str, str | None, str], MalformedObject] = {}

    def abort(self) -> None:
        """Send no more requests, from any thread."""
        self.transport.abort()

    @property
    def has_written(self) -> bool:
        """Whether the task has sent a write, successful or not."""
        return self.transport.has_written

    def begin_task(self) -> None:
        """Start counting ``request_timeout`` again: it is the time for all unanswered requests of a task."""
        self.transport.begin_task()

    def report_secrets(self, report: Callable[[set[str]], object]) -> None:
        """Call ``report`` with the credentials, now and whenever there are new ones."""
        self.transport.report_secrets(report)

    def list_objects(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
    ) -> list[dict[str, Any]]:
        """All objects of a kind that match the label and field selectors.

        With ``metadata_only`` each has apiVersion, kind and ``metadata`` alone: enough to see what exists.
        """
        return self.list_slim(
            resource, lambda obj: obj, namespace, labels=labels, fields=fields, metadata_only=metadata_only, whole=True
        )

    def list_slim(
        self,
        resource: Resource,
        slim: Callable[[dict[str, Any]], T],
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        metadata_only: bool = False,
        whole: bool = False,
    ) -> list[T]:
        """Like ``list_objects``, but keeps only what ``slim`` returns for each: one page is in memory at a time.

        ``whole``: that is most of each, so their number is limited as that of whole objects.
        """
        accept = _METADATA_LIST if metadata_only else JSON

        def read() -> list[T]:
            with self.lists.open(resource.path(namespace), whole, ListLimits) as limits:
                pages = self.pages(resource, namespace, labels, fields, accept, limits)
                return [slim(obj) for page in pages for obj in self.items(resource, page, metadata_only)]

        return _again_if_expired(read)

    def list_with_version(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        labels: str = "",
        fields: str = "",
        slim: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> tuple[list[dict[str, Any]], str]:
        """The matching objects, and the resourceVersion from which a watch continues without a gap.

        With ``slim``, what it returns for each, as in ``list_slim``.
        """

        def read() -> tuple[list[dict[str, Any]], str]:
            objects, version = [], ""
            with self.lists.open(resource.path(namespace), slim is None, ListLimits) as limits:
                for page in self.pages(resource, namespace, labels, fields, JSON, limits, watchable=True):
                    found = self.items(resource, page)
                    objects += [slim(obj) for obj in found] if slim else found
                    version = page["metadata"]["resourceVersion"]
            return objects, version

        return _again_if_expired(read)

    def list_first(self, resource: Resource, limit: int = 1) -> list[dict[str, Any]]:
        """At most ``limit`` objects of a kind, in one request: a sample."""
        page = self.transport.request("GET", resource.path(), Expected(f"{resource.kind}List"), {"limit": str(limit)})
        return self.items(resource, page)

    def is_readable(self, resource: Resource, obj: Any, *, metadata_only: bool = False) -> bool:
        """Whether the object is like its kind; one that is not is kept in mind (see shapes.py)."""
        malformed = malformation(resource, obj, metadata_only=metadata_only)
        if malformed is not None:
            self.malformed_objects[malformed[:3]] = malformed
        return malformed is None

    def _readable(
        self, resource: Resource, obj: dict[str, Any], *, metadata_only: bool = False, written: bool = False
    ) -> dict[str, Any]:
        if malformed := malformation(resource, obj, metadata_only=metadata_only, may_lack=True):
            problem = UnreadableObject(malformed)
            problem.may_be_written = written
            raise problem
        return obj

    def watch(
        self,
        resource: Resource,
        namespace: str | None,
        version: str,
        *,
        labels: str = "",
        fields: str = "",
        seconds: float,
    ) -> Watch:
        """Watch the changes after a resourceVersion; the server ends the watch after so many seconds."""
        from .watch import Watch  # Here: few tasks wait.

        query = {
            "watch": "true",
            "resourceVersion": version,
            "allowWatchBookmarks": "true",  # They say how far a quiet watch has come, so that it can be resumed there.
            "timeoutSeconds": str(math.ceil(seconds)),
            "labelSelector": labels,
            "fieldSelector": fields,
        }
        path = resource.path(namespace)
        return self.transport.send("GET", path, lambda response: Watch(response, path), query, stream=WATCH)

    def get(
        self, resource: Resource, namespace: str | None, name: str, *, leaves_out: bool = False
    ) -> dict[str, Any] | None:
        """One object, or None. One that is not like its kind raises UnreadableObject, or is left out as in a list."""
        try:
            found = self.transport.request("GET", resource.path(namespace, name), Expected(resource.kind, name))
        except ApiError as error:
            # Any proxy can say 404. Taken for a missing object, that would be created again.
            if error.status == 404 and error.reason == "NotFound":
                return None
            raise
        if leaves_out:
            return found if self.is_readable(resource, found) else None
        return self._readable(resource, found)

    def apply(
        self,
        obj: dict[str, Any],
        *,
        dry_run: bool = False,
        force: bool = False,
        manager: str = FIELD_MANAGER,
        on_warning: Callable[[str], None] | None = None,
    ) -> dict[str, Any]:
        """Server-side apply: create the object, or set the fields that it names.

        ``on_warning`` is called with each warning that the server answers.
        """
        query = {**_write_query(dry_run), "fieldManager": manager, "force": "true" if force else "false"}
        name = obj["metadata"]["name"]
        resource = resource_of(obj)
        path = resource.path(obj["metadata"].get("namespace"), name)
        expected = Expected(obj["kind"], name)
        answer = self.transport.request(
            "PATCH", path, expected, query, obj, content_type=APPLY_PATCH, on_warning=on_warning
        )
        return self._readable(resource, answer, written=not dry_run)

    def merge_patch(
        self,
        resource: Resource,
        metadata: Mapping[str, Any],
        patch: Mapping[str, Any],
        *,
        dry_run: bool = False,
        metadata_only: bool = False,
    ) -> dict[str, Any]:
        """Apply a JSON merge patch to exactly the version of the object that ``metadata`` was read from.

        Raises ApiError 409 (reason Conflict) if the object has changed since, also by this very patch when it was sent
        again after a lost response: the caller reads the object again and decides. A ``metadata`` without
        resourceVersion patches any version. With ``metadata_only`` the response has only ``metadata``.
        """
        # In a patch it is a precondition (Kubernetes documentation, API Concepts, "Resource versions").
        version = {"resourceVersion": metadata["resourceVersion"]} if "resourceVersion" in metadata else {}
        body = {**patch, "metadata": {**patch.get("metadata", {}), **version}}
        path = resource.path(metadata.get("namespace"), metadata["name"])
        accept = _METADATA if metadata_only else JSON
        expected = Expected("PartialObjectMetadata" if metadata_only else resource.kind, metadata["name"])
        answer = self.transport.request(
            "PATCH", path, expected, _write_query(dry_run), body, content_type=_MERGE_PATCH, accept=accept
        )
        return self._readable(resource, answer, metadata_only=metadata_only, written=not dry_run)

    def json_patch(
        self, resource: Resource, namespace: str | None, name: str, operations: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Apply a JSON patch, which can test what it is applied to. Applying it twice must do the same as once.

        Raises ApiError 422 if one of them fails: the server does not say which.
        """
        path = resource.path(namespace, name)
        expected = Expected(resource.kind, name)
        answer = self.transport.request(
            "PATCH", path, expected, _write_query(False), operations, content_type=_JSON_PATCH
        )
        return self._readable(resource, answer, written=True)

    def create(self, obj: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any] | None:
        """The created object. None: one of that name exists, perhaps our own if the response to it was lost.

        A dry run validates the object in either case: the API server validates and admits it before its storage looks
        for one of the same name (apiserver/pkg/registry/generic/registry/store.go, ``Store.create``).
        """
        resource = resource_of(obj)
        path = resource.path(obj["metadata"].get("namespace"))
        try:
            expected = Expected(obj["kind"], obj["metadata"]["name"])
            answer = self.transport.request("POST", path, expected, _write_query(dry_run), obj)
            return self._readable(resource, answer, written=not dry_run)
        except ApiError as error:
            if error.status == 409 and error.reason == "AlreadyExists":
                return None
            raise

    def delete(
        self,
        resource: Resource,
        metadata: Mapping[str, Any],
        *,
        propagation: str,
        grace_seconds: int | None = None,
        dry_run: bool = False,
        same_version: bool = False,
    ) -> bool:
        """Delete exactly the object that ``metadata`` was read from. False: it no longer exists.

        ``propagation`` has no default: a batch/v1 Job that is deleted without it leaves its pods behind. With
        ``same_version``, an object that has changed since, or another one of its name, is an error: ApiError 409.
        """
        preconditions = {name: metadata[name] for name in ("uid", *(["resourceVersion"] if same_version else []))}
        options = {**_DELETE_OPTIONS, "propagationPolicy": propagation, "preconditions": preconditions}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        if dry_run:
            # Not in the query, which the server reads only if there is no body (apiserver, handlers/delete.go).
            options["dryRun"] = ["All"]
        path = resource.path(metadata.get("namespace"), metadata["name"])
        try:
            self.transport.request(
                "DELETE", path, Expected(resource.kind, metadata["name"], or_status=True), body=options
            )
        except ApiError as error:
            replaced = error.status == 409 and "UID in the precondition" in error.message and not same_version
            if (error.status == 404 and error.reason == "NotFound") or replaced:
                return False
            raise
        return True

    def delete_collection(self, resource: Resource, namespace: str, *, labels: str, grace_seconds: int) -> None:
        """Delete all objects of a kind that match the label selector."""
        options = {**_DELETE_OPTIONS, "gracePeriodSeconds": grace_seconds}
        expected = Expected(f"{resource.kind}List", or_status=True)
        self.transport.request("DELETE", resource.path(namespace), expected, {"labelSelector": labels}, options)

    def items(self, resource: Resource, page: Mapping[str, Any], metadata_only: bool = False) -> list[dict[str, Any]]:
        """The objects of a list, with the apiVersion and kind that the server omits from each."""
        identity = {"apiVersion": resource.api_version, "kind": resource.kind}
        items = (item if isinstance(item, dict) else {} for item in page.get("items") or ())
        objects = ({**identity, **item, **identity} for item in items)
        return [obj for obj in objects if self.is_readable(resource, obj, metadata_only=metadata_only)]

    def pages(
        self,
        resource: Resource,
        namespace: str | None,
        labels: str,
        fields: str,
        accept: str,
        limits: ListLimits,
        *,
        watchable: bool = False,
    ) -> Iterator[dict[str, Any]]:
        """The pages of a list; the next one is requested while the caller processes one.

        Objects can be a thousand times as large as others, and any account may make its own so. A page that is too
        large is asked for again with a quarter of the objects. One object that is too large is left out, by its name.
        """
        size = PAGE_SIZE

        def request(token: str = "") -> dict[str, Any]:
            nonlocal size
            limits.begin_page(token)
            kind = f"{resource.kind}List" if accept == JSON else "PartialObjectMetadataList"
            expected = Expected(kind, watchable=watchable)
            path = resource.path(namespace)
            while True:
                # No resourceVersion: the list must not be older than the last write (docs, "API Concepts").
                query = {"limit": str(size), "labelSelector": labels, "fieldSelector": fields, "continue": token}
                try:
                    page = self.transport.request("GET", path, expected, query, accept=accept, weigh=limits.weigh)
                except AnswerTooLarge as problem:
                    if isinstance(problem, ListTooLarge) or (size == 1 and accept != JSON):
                        raise
                    if size == 1:
                        return self._named_page(path, query, resource.kind, limits)
                    size = max(1, size // 4)
                else:
                    size = min(PAGE_SIZE, 2 * size)
                    return page

        page = request()
        prefetcher = ThreadPoolExecutor(max_workers=1)
        try:
            while token := (page.get("metadata") or {}).get("continue"):
                upcoming = prefetcher.submit(request, token)
                yield page
                page = upcoming.result()
        finally:
            prefetcher.shutdown(wait=False, cancel_futures=True)  # A caller that stops early needs no further page.
        yield page

    def _named_page(self, path: str, query: Mapping[str, str], kind: str, limits: ListLimits) -> dict[str, Any]:
        """A page without its objects, which are named as left out."""
        expected = Expected("PartialObjectMetadataList")
        page = self.transport.request("GET", path, expected, query, accept=_METADATA_LIST, weigh=limits.weigh)
        for obj in page["items"] or ():
            malformed = kind, obj["metadata"].get("namespace"), obj["metadata"]["name"]
            self.malformed_objects[malformed] = MalformedObject(*malformed, "it is too large")
        return {**page, "items": []}


def _again_if_expired(read: Callable[[], T]) -> T:
    """A continue token may expire: then start over (Kubernetes API concepts, "Retrieving large results sets")."""
    try:
        return read()
    except ApiError as error:
        if error.status != 410:
            raise
        return read()


def _write_query(dry_run: bool) -> dict[str, str]:
    # Otherwise the server drops fields that it does not know, and only warns (docs, "API Concepts", field validation).
    return {"fieldManager": FIELD_MANAGER, "fieldValidation": "Strict", "dryRun": "All" if dry_run else ""}


_DELETE_OPTIONS: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions"}


# -- clients by connection, so that the items of a loop do not each load the kubeconfig and connect -------------------

_CLIENTS: dict[str, Client] = {}


def cached_client(
    params: Mapping[str, Any], environ: Mapping[str, str], learn: Callable[[set[str]], object] = set
) -> Client:
    """The client for the connection that options and environment describe. Raises ConnectionProblem.

    Another option, variable or version of a file gives another client. So does another process: an inventory plugin
    opens one in ansible-playbook itself, and the workers forked from it must not share its sockets. ``learn`` is called
    with the credentials, as soon as they are known.
    """
    options = resolve_options(params, environ)
    key = json.dumps([os.getpid(), options, _file_versions(options, environ)], sort_keys=True, default=str)
    if key not in _CLIENTS:
        _CLIENTS[key] = Client(resolve_connection(params, environ, learn))
    _CLIENTS[key].begin_task()
    _CLIENTS[key].malformed_objects.clear()
    _CLIENTS[key].report_secrets(learn)
    return _CLIENTS[key]


def discard_client(client: Client) -> None:
    """Abort a client and drop it from the cache."""
    client.abort()
    for key in [key for key, cached in _CLIENTS.items() if cached is client]:
        del _CLIENTS[key]


def _file_versions(options: Mapping[str, Any], environ: Mapping[str, str]) -> list[tuple[str, int, int] | None]:
    """Path, time of modification and size of each file that the connection is read from; None for a missing one."""
    kubeconfig = chosen_kubeconfig(options, environ)
    kubeconfigs = [] if isinstance(kubeconfig, Mapping) else str(kubeconfig).split(os.pathsep)
    paths = (*kubeconfigs, *(options[name] for name in ("ca_cert", "client_cert", "client_key")))
    versions: list[tuple[str, int, int] | None] = []
    for path in (os.path.abspath(os.path.expanduser(path)) for path in paths if path):
        try:
            status = os.stat(path)
            versions.append((path, status.st_mtime_ns, status.st_size))
        except OSError:
            versions.append(None)
    return versions
