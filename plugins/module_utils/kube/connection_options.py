# SPDX-License-Identifier: BSD-2-Clause
"""The connection options of every module: argument spec, ``K8S_AUTH_*`` variables, and the connection they describe.

The options, aliases and variables are those of kubernetes.core, so playbooks, ``module_defaults`` and AWX's built-in
credential work unchanged. An option takes precedence over its variable; the rest comes from the kubeconfig or, inside a
pod, from the service account.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from .connection import Connection, basic, bearer, read_pem
from .errors import ConnectionProblem
from .kubeconfig import read_kubeconfig
from .library import KubeconfigError, load_kubeconfig, load_service_account


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


# Option -> its variables without the prefix K8S_AUTH_, in order of precedence: its own name, then its aliases.
ENVIRONMENT: dict[str, tuple[str, ...]] = {
    option: tuple(name.upper() for name in (option, *spec.get("aliases", ())))
    for option, spec in connection_argument_spec().items()
    if option != "proxy_headers"
}
PROXY_HEADERS = tuple(connection_argument_spec()["proxy_headers"]["options"])


def connection_secrets(params: Mapping[str, Any]) -> set[str]:
    """The secret values in a kubeconfig given as a dictionary, for Ansible's ``no_log``."""
    secrets: set[str] = set()

    def collect(value: Any, name: str = "") -> None:
        if isinstance(value, Mapping):
            for key, child in value.items():
                collect(child, str(key))
        elif isinstance(value, (list, tuple)):
            for child in value:
                collect(child, name)
        elif isinstance(value, str) and value and name in _SECRET_KEYS:
            secrets.add(value)

    collect(params.get("kubeconfig"))
    return secrets


_SECRET_KEYS = frozenset(
    {"token", "password", "client-key-data", "access-token", "id-token", "refresh-token", "client-secret"}
)


def connection_identity(params: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What distinguishes one connection from another, from options and environment, without the credentials."""
    environ = os.environ if environ is None else environ
    options = resolve_options(params, environ)
    kubeconfig = options["kubeconfig"] or environ.get("KUBECONFIG")
    if isinstance(kubeconfig, Mapping):
        kubeconfig = {key: kubeconfig.get(key) for key in ("clusters", "current-context")}
    names = ("context", "host", "username", "impersonate_user", "impersonate_groups")
    return {"kubeconfig": kubeconfig, **{name: options[name] for name in names}}


def resolve_connection(params: Mapping[str, Any], environ: Mapping[str, str]) -> Connection:
    """The connection that options and environment describe.

    Raises ConnectionProblem if they are wrong, ImportError if they need the missing ``kubernetes`` library.
    """
    options = resolve_options(params, environ)
    for option, minimum in _MINIMUM.items():
        if options[option] is not None and options[option] < minimum:
            raise ConnectionProblem(f"{option} is too small: {options[option]}. Use {minimum} or more.")
    connection = replace(_base_connection(options, environ), **_overrides(options))
    if not connection.server:
        raise ConnectionProblem("no API server given. Set host, or kubeconfig and context.")
    if not _is_http_url(connection.server):
        raise ConnectionProblem(
            f"not the URL of an API server: {connection.server}. Use one such as https://10.0.0.1:6443."
        )
    if connection.proxy and not _is_http_url(connection.proxy):
        address = connection.proxy.rpartition("@")[2]  # without a password
        raise ConnectionProblem(f"not the URL of a proxy: {address}. Use one such as http://10.0.0.1:3128.")
    return connection


_MINIMUM = {"request_timeout": 1, "retries": 0, "concurrency": 1}


def resolve_options(params: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """All connection options, those that are unset taken from the environment; None where neither has a value.

    An empty value counts as unset (AWX sets empty variables). Raises ConnectionProblem for a variable that should be a
    number.
    """
    options: dict[str, Any] = {name: params.get(name) for name in (*ENVIRONMENT, "proxy_headers", "concurrency")}
    for option, names in ENVIRONMENT.items():
        if options[option] in (None, "", []):
            values = (environ.get(f"K8S_AUTH_{name}") for name in names)
            options[option] = next((value for value in values if value), None)
    for option in ("validate_certs", "persist_config"):
        if isinstance(options[option], str):
            options[option] = options[option].strip().lower() not in ("0", "false", "no", "off", "n", "f")
    for option in ("request_timeout", "retries"):
        if isinstance(options[option], str):
            try:
                options[option] = int(options[option])
            except ValueError:
                raise ConnectionProblem(
                    f"K8S_AUTH_{option.upper()} is not a number: {options[option]!r}. Use a whole number."
                ) from None
    if isinstance(options["impersonate_groups"], str):
        options["impersonate_groups"] = [group for group in options["impersonate_groups"].split(",") if group]
    headers = {name: environ.get(f"K8S_AUTH_PROXY_HEADERS_{name.upper()}") for name in PROXY_HEADERS}
    headers |= {name: value for name, value in (options["proxy_headers"] or {}).items() if value}
    options["proxy_headers"] = {name: value for name, value in headers.items() if value}
    return options


def _base_connection(options: Mapping[str, Any], environ: Mapping[str, str]) -> Connection:
    """What the options override, in the order of kubernetes.core: nothing if they are complete, the kubeconfig or
    context that they select, the service account of the surrounding pod, the default kubeconfig."""

    def given(*names: str) -> bool:
        return all(options[name] for name in names)

    if given("host") and (given("api_key") or given("username", "password") or given("client_cert", "client_key")):
        return Connection()
    selected = given("kubeconfig") or given("context")
    in_pod = environ.get("KUBERNETES_SERVICE_HOST")  # The library detects a pod by it.
    if not selected and in_pod and (account := load_service_account()):
        return account
    kubeconfig = options["kubeconfig"] or environ.get("KUBECONFIG") or "~/.kube/config"
    context = options["context"]
    if connection := read_kubeconfig(kubeconfig, context):
        return connection
    try:
        return load_kubeconfig(kubeconfig, context, persist=options["persist_config"] is not False)
    except KubeconfigError as problem:
        if given("host") and not selected:
            return Connection()  # An open server, such as a proxy on this machine, needs no credentials.
        source = "the kubeconfig dictionary" if isinstance(kubeconfig, Mapping) else f"kubeconfig {kubeconfig}"
        raise ConnectionProblem(
            f"cannot load {source}{f', context {context}' if context else ''}: {problem}. Set kubeconfig (or "
            f"K8S_AUTH_KUBECONFIG) to an existing file and context to one of its contexts, or set host and api_key."
        ) from problem


def _overrides(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of Connection that the options set."""
    same = ("validate_certs", "proxy", "no_proxy", *_MINIMUM)
    overrides: dict[str, Any] = {name: options[name] for name in same if options[name] is not None}
    if options["host"]:
        overrides["server"] = options["host"].rstrip("/")
    if options["api_key"]:
        overrides["authorization"] = partial(bearer, options["api_key"])
    elif options["username"] and options["password"]:
        overrides["authorization"] = partial(basic, options["username"], options["password"])
    for option in ("client_cert", "client_key", "ca_cert"):
        if path := options[option]:
            try:
                overrides[option] = read_pem(path)
            except OSError as problem:
                reason = (problem.strerror or str(problem)).lower()
                raise ConnectionProblem(
                    f"cannot read {option} {path}: {reason}. Set it to the path of a PEM file."
                ) from None
    if options["proxy_headers"]:
        from urllib3.util import make_headers

        overrides["proxy_headers"] = make_headers(**options["proxy_headers"])
    user = [("Impersonate-User", options["impersonate_user"])] if options["impersonate_user"] else []
    # Each group is a header of its own (Kubernetes, user impersonation).
    groups = [("Impersonate-Group", group) for group in options["impersonate_groups"] or ()]
    return {**overrides, "impersonation": (*user, *groups)}


def _is_http_url(server: str) -> bool:
    try:
        url = urlsplit(server)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # brackets without an IPv6 address, a port that is not a number
        return False
