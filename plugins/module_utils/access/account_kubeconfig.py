# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_kubeconfig: a file with which a colleague connects to the cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from urllib.parse import urlsplit

from ..engine.changes import map_diff
from ..engine.plan import Action
from ..kube.answer import Expected
from ..kube.client import Client
from ..kube.connection_options import is_http_url, is_loopback
from ..kube.errors import ApiError
from ..kube.resources import SERVICE_ACCOUNT
from ..logs.host_file import PRIVATE, HostFile
from ..namespaces import namespace_problem
from ..options import option
from ..printable import one_line
from ..rbac.rbac import SubjectOptions, subject_errors
from ..task import ModuleSpec, Task, TaskFailed
from .account_token import DAY, TokenClaims, read_claims
from .kubeconfig_file import (
    DEFAULT_CONTEXT,
    WrittenContext,
    is_of_user,
    is_ours,
    kubeconfig_text,
    new_context,
    read_contexts,
    user_entry_name,
)

MOST_DAYS = 3650
_CLOCKS_DIFFER = 300  # seconds


@dataclass(frozen=True, kw_only=True)
class KubeconfigOptions(SubjectOptions):
    state: str = option("str", choices=["present", "absent"], default="present")
    dest: str = option("path", required=True)
    job_namespace: str | None = option("str")
    server: str | None = option("str")
    days: int = option("int", default=30)
    renew_days: int = option("int", default=7)
    cluster: str | None = option("str")

    @property
    def user(self) -> str:
        return self.subject.user or self.name


@dataclass(frozen=True)
class _Credentials:
    """What the kubeconfig is to have for its user; ``claims`` are those of a token."""

    fields: dict[str, Any]
    claims: TokenClaims | None = None


def run(task: Task[KubeconfigOptions]) -> dict[str, Any]:
    """Bring the kubeconfig of one account to the desired state.

    Returns ``changed``, ``results``, ``diff`` and ``msg``; never the token.
    """
    _validate_options(task.options)
    if task.options.state == "absent":
        return _remove_file(task)
    file = _host_file(task.options.dest)
    former = _read_own_file(file, task.options.dest)
    return _write_file(task, file, former)


MODULE = ModuleSpec(KubeconfigOptions, run, level="administer")


def _validate_options(options: KubeconfigOptions) -> None:
    """Raises TaskFailed with all errors at once."""
    errors = subject_errors(options)
    if options.job_namespace and (problem := namespace_problem(options.job_namespace, None)):
        errors.append(f"job_namespace: {problem}")
    if options.server and not is_http_url(options.server):
        errors.append(f"server: not the URL of an API server: {options.server}. Use one such as https://10.0.0.1:6443.")
    if not 1 <= options.days <= MOST_DAYS:
        errors.append(f"days: {options.days} is out of range. Use 1 to {MOST_DAYS}.")
    if not 0 <= options.renew_days < max(options.days, 1):
        errors.append(f"renew_days: {options.renew_days} is out of range. Use less than days, {options.days}.")
    if errors:
        raise TaskFailed.before_any_write(errors)


def _host_file(dest: str) -> HostFile:
    try:
        return HostFile(dest, PRIVATE)
    except ValueError as problem:
        raise TaskFailed(f"{problem} Nothing was changed.") from None


def _read_own_file(file: HostFile, dest: str) -> str | None:
    """The file as an earlier task has written it. Raises TaskFailed for a file that this collection did not write."""
    with _file_errors("read", dest):
        content = file.read()
    if content is None:
        return None
    text = content.decode("utf-8", "replace")
    if not is_ours(text):
        raise TaskFailed(f"dest: {dest} was not written by this module. Name another file. Nothing was changed.")
    return text


def _former_contexts(options: KubeconfigOptions, text: str | None) -> tuple[list[WrittenContext], str]:
    """The contexts of the file as it is, and the current one. Raises TaskFailed if one could be lost, or given away."""
    read = read_contexts(text) if text is not None else ([], "")
    if read is None and not options.cluster:
        return [], ""  # It is written from scratch.
    own = _own_context(options, read[0]) if read else None
    others = [each.name for each in read[0] if each is not own] if read else []
    problem = None
    if read is None:
        problem = "cannot be read as a kubeconfig. Delete it"
    elif others and not options.cluster:
        problem = f"has contexts of several clusters, such as {one_line(others[0])}. Set O(cluster)"
    elif others and not is_of_user(str(text), options.user):
        problem = f"is not for {options.user}, and would be with the tokens of another user"
    if problem:
        raise TaskFailed(f"dest: {options.dest} {problem}, or name another file. Nothing was changed.")
    return read or ([], "")


def _own_context(options: KubeconfigOptions, contexts: Sequence[WrittenContext]) -> WrittenContext | None:
    """That of the cluster; in a file of one, its owner may have renamed it."""
    if not options.cluster and len(contexts) == 1:
        return contexts[0]
    return next((each for each in contexts if each.name == (options.cluster or DEFAULT_CONTEXT)), None)


def _remove_file(task: Task[KubeconfigOptions]) -> dict[str, Any]:
    """Delete the file, or what it has of a cluster, and the file once that is all."""
    options, dest, before, action = task.options, task.options.dest, {}, Action.UNCHANGED
    if os.path.isdir(os.path.dirname(os.path.abspath(dest))):
        file = _host_file(dest)
        with _file_errors("delete", dest), file.locked():
            former = _read_own_file(file, dest)
            contexts, current = _former_contexts(options, former) if options.cluster else ([], "")
            own = _own_context(options, contexts)
            if former is not None and (own or not options.cluster):
                before, action = _visible_parts(options, former), Action.DELETE
                left = [each for each in contexts if each is not own]
                if left:
                    text = kubeconfig_text(options.user, left, current)
                    file.replace([(text.encode(), BytesIO())], check_mode=task.check_mode)
                elif not task.check_mode:
                    file.remove()
    return _file_result(task, action, before, {})


def _write_file(task: Task[KubeconfigOptions], file: HostFile, former: str | None) -> dict[str, Any]:
    options, connection = task.options, task.client().connection
    _warn_of_server(task, options.server or connection.server)
    own = _own_context(options, _former_contexts(options, former)[0])
    is_same_user = own is not None and own.user["name"] == user_entry_name(options.user, options.cluster)
    credentials = _credentials(task, dict(own.user["user"]) if own and is_same_user else {})
    fields = credentials.fields if credentials else {}  # In check mode, the token is yet to be issued.
    new = new_context(connection, options.server, options.user, options.job_namespace, fields, options.cluster)
    with _file_errors("write", options.dest), file.locked():  # Other clusters may have got theirs meanwhile.
        contexts, current = _former_contexts(options, _read_own_file(file, options.dest))
        former_own = _own_context(options, contexts)
        others = [new if each is former_own else each for each in contexts]
        text = kubeconfig_text(options.user, others if former_own else [*others, new], current)
        changed = file.replace([(text.encode(), BytesIO())], check_mode=task.check_mode or credentials is None)
    expires = credentials.claims.expiry if credentials and credentials.claims else None
    is_new = former is None or (options.cluster is not None and own is None)
    action = Action.CREATE if is_new else Action.UPDATE if changed or credentials is None else Action.UNCHANGED
    after = {**_visible_parts(options, text), "expires": expires}
    return _file_result(task, action, _visible_parts(options, former), after)


@contextmanager
def _file_errors(verb: str, dest: str) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise TaskFailed(f"dest: cannot {verb} {dest}: {reason}. Nothing was changed.") from None


def _credentials(task: Task[KubeconfigOptions], former: dict[str, Any]) -> _Credentials | None:
    """Of a service account a token: the former one as long as it may be kept, else a new one; None in check mode.

    Of users and groups, what they have added to the file themselves.
    """
    options = task.options
    task.mask(str(value) for value in former.values() if isinstance(value, str))
    if options.subject.kind != SERVICE_ACCOUNT.kind:
        return _Credentials(former)
    account = task.client().get(SERVICE_ACCOUNT, options.namespace, options.name)
    if account is None and not task.check_mode:
        raise TaskFailed(
            f"service account {options.name} not found in namespace {options.namespace}. Create it with "
            f"M(gpuctl_rbac). Nothing was changed."
        )
    claims = read_claims(str(former.get("token")))
    uid, user = (account or {"metadata": {"uid": ""}})["metadata"]["uid"], str(options.subject.user)
    if claims and claims.may_be_kept(user, uid, time.time(), days=options.days, renew_days=options.renew_days):
        return _Credentials({"token": former["token"]}, claims)
    return None if task.check_mode else _issue(task)


def create_token(client: Client, namespace: str, name: str, days: int) -> tuple[str, str]:
    """A token of a service account, and when it expires: the server may grant less time than asked for."""
    path, kind = f"{SERVICE_ACCOUNT.path(namespace, name)}/token", "TokenRequest"
    spec = {"expirationSeconds": days * DAY}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": kind, "spec": spec}
    status = client.transport.request("POST", path, Expected(kind), body=request).get("status") or {}
    return str(status.get("token") or ""), str(status.get("expirationTimestamp") or "")


def _issue(task: Task[KubeconfigOptions]) -> _Credentials:
    options = task.options
    try:
        token, expires = create_token(task.client(), options.namespace, options.name, options.days)
    except ApiError as error:
        raise TaskFailed(f"no token for service account {options.name}: {error}. Nothing was changed.") from None
    task.mask([token])
    claims = read_claims(token)
    if claims and claims.expires < time.time() + options.days * DAY - _CLOCKS_DIFFER:
        task.warn(
            f"the API server grants tokens less time than {options.days} days: this one expires at {expires}. Run the "
            f"task again before."
        )
    return _Credentials({"token": token}, claims)


def _warn_of_server(task: Task[KubeconfigOptions], server: str) -> None:
    if is_loopback(server):
        task.warn(
            f"the kubeconfig works on this machine only, because its server is {server}. Set "
            f"O(server) to the URL that its owner uses."
        )
    elif urlsplit(server).hostname == task.environ.get("KUBERNETES_SERVICE_HOST"):
        task.warn(
            f"the kubeconfig works inside of the cluster only, because its server is {server}. Set "
            f"O(server) to the URL that its owner uses."
        )


def _visible_parts(options: KubeconfigOptions, text: str | None) -> dict[str, str | None]:
    """What a diff shows of a kubeconfig: the context of this task."""
    contexts, _current = (text is not None and read_contexts(text)) or ([], "")
    own = _own_context(options, contexts)
    if own is None:
        return {}
    claims = read_claims(str(own.user["user"].get("token")))
    return {
        "server": str(own.cluster["cluster"]["server"]),
        "user": str(own.entry["context"]["user"]),
        "namespace": own.entry["context"].get("namespace"),
        "expires": claims.expiry if claims else None,
    }


def _file_result(
    task: Task[KubeconfigOptions], action: Action, before: dict[str, str | None], after: dict[str, str | None]
) -> dict[str, Any]:
    options = task.options
    result = {
        "name": options.name,
        "kind": options.kind,
        "user": options.subject.user,
        "path": options.dest,
        "action": str(action),
        "server": after.get("server"),
        "expires": after.get("expires"),
        "reason": _owner_note(options, after.get("expires")),
    }
    changed = action is not Action.UNCHANGED
    return {
        "changed": changed,
        "results": [result],
        "diff": task.diff(lambda: [map_diff(f"kubeconfig {options.dest}", before, after)] if changed else []),
        "msg": f"kubeconfig {options.dest}: {action}",
    }


def _owner_note(options: KubeconfigOptions, expires: str | None) -> str | None:
    """What its owner has to know of the file."""
    if options.state == "absent":
        return None
    if options.kind != "service_account":
        place = f"the user {user_entry_name(options.user, options.cluster)}" if options.cluster else "users[0].user"
        return (
            f"The kubeconfig has no credentials: Kubernetes issues none for a {options.kind}. Its owner adds them to "
            f"{place}, such as the exec plugin of the identity provider."
        )
    return f"Its token expires at {expires}. Run the task again before that to renew it." if expires else None
