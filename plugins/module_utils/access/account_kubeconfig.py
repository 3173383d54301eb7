# SPDX-License-Identifier: BSD-2-Clause
"""The task behind gpuctl_kubeconfig: a file with which a colleague connects to the cluster."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
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
from ..rbac.rbac import SubjectOptions, subject_errors
from ..task import ModuleSpec, Task, TaskFailed
from .account_token import DAY, TokenClaims, read_claims
from .kubeconfig_file import is_ours, kubeconfig_text, written_credentials

_MOST_DAYS = 3650
_CLOCKS_DIFFER = 300  # seconds


@dataclass(frozen=True, kw_only=True)
class KubeconfigOptions(SubjectOptions):
    state: str = option("str", choices=["present", "absent"], default="present")
    dest: str = option("path", required=True)
    job_namespace: str | None = option("str")
    server: str | None = option("str")
    days: int = option("int", default=30)
    renew_days: int = option("int", default=7)


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
    if not 1 <= options.days <= _MOST_DAYS:
        errors.append(f"days: {options.days} is out of range. Use 1 to {_MOST_DAYS}.")
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


def _remove_file(task: Task[KubeconfigOptions]) -> dict[str, Any]:
    dest = task.options.dest
    former = None
    if os.path.isdir(os.path.dirname(os.path.abspath(dest))):
        file = _host_file(dest)
        former = _read_own_file(file, dest)
        if former is not None and not task.check_mode:
            with _file_errors("delete", dest):
                file.remove()
    action = Action.UNCHANGED if former is None else Action.DELETE
    return _file_result(task, action, _visible_parts(former), {})


def _write_file(task: Task[KubeconfigOptions], file: HostFile, former: str | None) -> dict[str, Any]:
    options, connection = task.options, task.client().connection
    _warn_of_server(task, options.server or connection.server)
    user = options.subject.user or options.name
    credentials = _credentials(task, written_credentials(former, user) if former else {})
    if credentials is None:  # In check mode: the token is yet to be issued.
        text = kubeconfig_text(connection, options.server, user, options.job_namespace, {})
        changed, expires = True, None
    else:
        text = kubeconfig_text(connection, options.server, user, options.job_namespace, credentials.fields)
        with _file_errors("write", options.dest):
            changed = file.replace([(text.encode(), BytesIO())], check_mode=task.check_mode)
        expires = credentials.claims.expiry if credentials.claims else None
    action = Action.CREATE if former is None else Action.UPDATE if changed else Action.UNCHANGED
    return _file_result(task, action, _visible_parts(former), {**_visible_parts(text), "expires": expires})


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


def _create_token(client: Client, options: KubeconfigOptions) -> tuple[str, str]:
    """A token, and when it expires: the server may grant less time than asked for."""
    path, kind = f"{SERVICE_ACCOUNT.path(options.namespace, options.name)}/token", "TokenRequest"
    spec = {"expirationSeconds": options.days * DAY}
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": kind, "spec": spec}
    status = client.transport.request("POST", path, Expected(kind), body=request).get("status") or {}
    return str(status.get("token") or ""), str(status.get("expirationTimestamp") or "")


def _issue(task: Task[KubeconfigOptions]) -> _Credentials:
    options = task.options
    try:
        token, expires = _create_token(task.client(), options)
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


def _visible_parts(text: str | None) -> dict[str, str | None]:
    """What a diff shows of a kubeconfig."""
    import yaml

    if text is None:
        return {}
    try:
        config = yaml.safe_load(text)
        (context,), (cluster,), (user,) = (config[part] for part in ("contexts", "clusters", "users"))
        claims = read_claims(str(user["user"].get("token")))
        return {
            "server": str(cluster["cluster"]["server"]),
            "user": str(context["context"]["user"]),
            "namespace": context["context"].get("namespace"),
            "expires": claims.expiry if claims else None,
        }
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError):
        return {}


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
        return (
            f"The kubeconfig has no credentials: Kubernetes issues none for a {options.kind}. Its owner adds them to "
            f"users[0].user, such as the exec plugin of the identity provider."
        )
    return f"Its token expires at {expires}. Run the task again before that to renew it." if expires else None
