# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""From module options, ``K8S_AUTH_*`` variables and kubeconfig files to one place that says how to reach the server.

The options, their aliases and their environment variables are those of kubernetes.core, so that playbooks,
``module_defaults`` and AWX's built-in credential mean the same here. An option wins over its variable; what neither
gives comes from the kubeconfig or, inside a pod, from the service account.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from .credentials import Credentials, basic, bearer, read_pem
from .errors import ConnectionProblem


@dataclass(frozen=True)
class Connection(Credentials):
    """How to reach one API server.

    ``concurrency`` is the number of requests that it is given at once, and of connections that are kept for them.
    """

    no_proxy: str | None = None
    proxy_headers: Mapping[str, str] = field(default_factory=dict)
    impersonation: tuple[tuple[str, str], ...] = ()
    request_timeout: float = 30.0
    retries: int = 5
    concurrency: int = 10


# Option -> (names of its variable after K8S_AUTH_, in order of precedence).
ENVIRONMENT: dict[str, tuple[str, ...]] = {
    "kubeconfig": ("KUBECONFIG",),
    "context": ("CONTEXT",),
    "host": ("HOST",),
    "api_key": ("API_KEY",),
    "username": ("USERNAME",),
    "password": ("PASSWORD",),
    "client_cert": ("CLIENT_CERT", "CERT_FILE"),
    "client_key": ("CLIENT_KEY", "KEY_FILE"),
    "ca_cert": ("CA_CERT", "SSL_CA_CERT"),
    "validate_certs": ("VALIDATE_CERTS", "VERIFY_SSL"),
    "proxy": ("PROXY",),
    "no_proxy": ("NO_PROXY",),
    "persist_config": ("PERSIST_CONFIG",),
    "impersonate_user": ("IMPERSONATE_USER",),
    "impersonate_groups": ("IMPERSONATE_GROUPS",),
    "request_timeout": ("REQUEST_TIMEOUT",),
    "retries": ("RETRIES",),
}
PROXY_HEADERS = ("proxy_basic_auth", "basic_auth", "user_agent")


def connection_argument_spec() -> dict[str, dict[str, Any]]:
    """The connection options of every module; documented in the doc fragment ``runwhere.gpuctl.connection``."""
    return {
        "kubeconfig": {"type": "raw"},
        "context": {"type": "str"},
        "host": {"type": "str"},
        "api_key": {"type": "str", "no_log": True},
        "username": {"type": "str"},
        "password": {"type": "str", "no_log": True},
        "client_cert": {"type": "path", "aliases": ["cert_file"]},
        "client_key": {"type": "path", "aliases": ["key_file"], "no_log": False},
        "ca_cert": {"type": "path", "aliases": ["ssl_ca_cert"]},
        "validate_certs": {"type": "bool", "aliases": ["verify_ssl"]},
        "proxy": {"type": "str"},
        "no_proxy": {"type": "str"},
        "proxy_headers": {
            "type": "dict",
            "options": {
                "proxy_basic_auth": {"type": "str", "no_log": True},
                "basic_auth": {"type": "str", "no_log": True},
                "user_agent": {"type": "str"},
            },
        },
        "persist_config": {"type": "bool"},
        "impersonate_user": {"type": "str"},
        "impersonate_groups": {"type": "list", "elements": "str"},
        "request_timeout": {"type": "int"},
        "retries": {"type": "int"},
    }


def connection_secrets(params: Mapping[str, Any]) -> set[str]:
    """The secret leaves of a kubeconfig given as a dictionary, for Ansible's ``no_log``."""
    found: set[str] = set()

    def collect(value: Any, name: str = "") -> None:
        if isinstance(value, Mapping):
            for key, child in value.items():
                collect(child, str(key))
        elif isinstance(value, (list, tuple)):
            for child in value:
                collect(child, name)
        elif isinstance(value, str) and value and name in _SECRET_LEAVES:
            found.add(value)

    collect(params.get("kubeconfig"))
    return found


_SECRET_LEAVES = frozenset(
    {"token", "password", "client-key-data", "access-token", "id-token", "refresh-token", "client-secret"}
)


def connect(params: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> Connection:
    """Resolve the options to a connection.

    Raises ConnectionProblem when they lead nowhere, ImportError when the ``kubernetes`` library is missing.
    """
    environ = os.environ if environ is None else environ
    options = resolved(params, environ)
    for option, least in _LEAST.items():
        if options[option] is not None and options[option] < least:
            raise ConnectionProblem(f"{option} is {options[option]}; give {least} or more.")
    access = _overridden(_access(options, environ), options)
    _check_url(access.server)
    return Connection(
        **{**vars(access), "server": access.server.rstrip("/")},
        no_proxy=options.get("no_proxy"),
        proxy_headers=_proxy_headers(options),
        impersonation=_impersonation(options),
        **{option: options[option] for option in _LEAST if options[option] is not None},
    )


_LEAST = {"request_timeout": 1, "retries": 0, "concurrency": 1}


def connection_identity(params: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What tells one connection from another, options and environment together, without the credentials."""
    environ = os.environ if environ is None else environ
    options = resolved(params, environ)
    kubeconfig = options["kubeconfig"] or environ.get("KUBECONFIG")
    if isinstance(kubeconfig, Mapping):
        kubeconfig = {key: kubeconfig.get(key) for key in ("clusters", "current-context")}
    named = ("context", "host", "username", "impersonate_user", "impersonate_groups")
    return {"kubeconfig": kubeconfig, **{name: options[name] for name in named}}


def resolved(params: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The connection's options, what is unset taken from the environment.

    An empty variable counts as unset (AWX sets those). Raises ConnectionProblem for a variable that is no number.
    """
    options: dict[str, Any] = {name: params.get(name) for name in (*ENVIRONMENT, "proxy_headers", "concurrency")}
    for option, names in ENVIRONMENT.items():
        if options.get(option) not in (None, "", []):
            continue
        options[option] = next((environ[f"K8S_AUTH_{name}"] for name in names if environ.get(f"K8S_AUTH_{name}")), None)
    for option in ("validate_certs", "persist_config"):
        if isinstance(options.get(option), str):
            options[option] = options[option].strip().lower() not in ("0", "false", "no", "off", "n", "f")
    for option in ("request_timeout", "retries"):
        if isinstance(options.get(option), str):
            options[option] = _number(option, options[option])
    if isinstance(options.get("impersonate_groups"), str):
        options["impersonate_groups"] = [group for group in options["impersonate_groups"].split(",") if group]
    headers = {name: value for name, value in (options.get("proxy_headers") or {}).items() if value}
    for name in PROXY_HEADERS:
        value = environ.get(f"K8S_AUTH_PROXY_HEADERS_{name.upper()}")
        if value:
            headers.setdefault(name, value)
    options["proxy_headers"] = headers
    return options


def _number(option: str, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise ConnectionProblem(f"K8S_AUTH_{option.upper()} is {text!r}; it must be a whole number") from None


def _access(options: Mapping[str, Any], environ: Mapping[str, str]) -> Credentials:
    """Complete options need no file, a named file or context is taken, and else the pod's service account comes before
    the default kubeconfig (the order of kubernetes.core)."""

    def given(*names: str) -> bool:
        return all(options.get(name) for name in names)

    if given("host") and (given("api_key") or given("username", "password") or given("client_cert", "client_key")):
        return Credentials()
    named = given("kubeconfig") or given("context")
    if not named and environ.get("KUBERNETES_SERVICE_HOST"):  # The library's sign of a pod.
        from .library import service_account_credentials

        found = service_account_credentials()
        if found:
            return found
    kubeconfig = options.get("kubeconfig") or environ.get("KUBECONFIG") or "~/.kube/config"
    return _plain(kubeconfig, options) or _by_library(kubeconfig, options, needed=named or not given("host"))


def _check_url(server: str) -> None:
    if not server:
        raise ConnectionProblem("no API server is named: set host, or kubeconfig and context")
    try:
        url = urlsplit(server)
        usable = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # brackets of no IPv6 address, a port that is no number
        usable = False
    if not usable:
        raise ConnectionProblem(f"the API server {server} is no URL; give host such as https://10.0.0.1:6443")


def _plain(kubeconfig: Any, options: Mapping[str, Any]) -> Credentials | None:
    from .kubeconfig import kubeconfig_credentials_plain

    return kubeconfig_credentials_plain(kubeconfig, options.get("context"))


def _by_library(kubeconfig: Any, options: Mapping[str, Any], *, needed: bool) -> Credentials:
    from .library import CannotLoad, kubeconfig_credentials

    context = options.get("context")
    try:
        return kubeconfig_credentials(kubeconfig, context, persist=options.get("persist_config") is not False)
    except CannotLoad as problem:
        if not needed:
            return Credentials()  # An open server (a proxy on this machine) needs no credentials.
        raise ConnectionProblem(_cannot_load(kubeconfig, context, problem)) from problem


def _cannot_load(kubeconfig: Any, context: str | None, problem: Exception) -> str:
    source = "the kubeconfig given as a dictionary" if isinstance(kubeconfig, Mapping) else f"kubeconfig {kubeconfig}"
    if context:
        source += f", context {context}"
    return (
        f"cannot load {source}: {problem}. Set kubeconfig (or K8S_AUTH_KUBECONFIG) to a file that exists and "
        f"context to one of its contexts, or give host and api_key."
    )


def _overridden(access: Credentials, options: Mapping[str, Any]) -> Credentials:
    """Options win over what the kubeconfig says."""
    given: dict[str, Any] = {}
    if options.get("host"):
        given["server"] = options["host"]
    if options.get("api_key"):
        given["authorization"] = partial(bearer, options["api_key"])
    elif options.get("username") and options.get("password"):
        given["authorization"] = partial(basic, options["username"], options["password"])
    for option in ("client_cert", "client_key", "ca_cert"):
        if options.get(option):
            given[option] = _read(option, options[option])
    if options.get("proxy"):
        given["proxy"] = options["proxy"]
    if options.get("validate_certs") is not None:
        given["validate_certs"] = options["validate_certs"]
    return replace(access, **given)


def _read(option: str, path: str) -> str:
    try:
        return read_pem(path)
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise ConnectionProblem(f"{option}: {path} cannot be read: {reason}") from None


def _proxy_headers(options: Mapping[str, Any]) -> Mapping[str, str]:
    from urllib3.util import make_headers

    headers: Mapping[str, str] = make_headers(**options["proxy_headers"])
    return headers


def _impersonation(options: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Impersonation headers; a group each has its own (Kubernetes, user impersonation)."""
    headers = []
    if options.get("impersonate_user"):
        headers.append(("Impersonate-User", options["impersonate_user"]))
    headers += [("Impersonate-Group", group) for group in options.get("impersonate_groups") or ()]
    return tuple(headers)
