# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""From module options, ``K8S_AUTH_*`` variables and kubeconfig files to one place that says how to reach the server.

The options, their aliases and their environment variables are those of kubernetes.core, so that playbooks,
``module_defaults`` and AWX's built-in credential mean the same here. An option wins over its variable; what neither
gives comes from the kubeconfig or, inside a pod, from the service account.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .errors import ConnectionProblem


@dataclass(frozen=True)
class Connection:
    """How to reach one API server. ``authorization`` is called for each request: exec plug-ins renew their tokens.

    ``concurrency`` is the number of requests that it is given at once, and of connections that are kept for them.
    """

    server: str
    authorization: Callable[[], dict[str, str]]
    ca_cert: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    validate_certs: bool = True
    tls_server_name: str | None = None
    proxy: str | None = None
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
    concurrency = int(params.get("concurrency", Connection.concurrency))
    if concurrency < 1:
        raise ConnectionProblem(f"concurrency is {concurrency}; give 1 or more.")
    options = _with_environment(params, os.environ if environ is None else environ)
    configuration = _load(options)
    _override(configuration, options)
    if not configuration.host:
        raise ConnectionProblem("no API server is named: set host, or kubeconfig and context")
    return Connection(
        server=configuration.host.rstrip("/"),
        authorization=lambda: _authorization(configuration),
        ca_cert=configuration.ssl_ca_cert,
        client_cert=configuration.cert_file,
        client_key=configuration.key_file,
        validate_certs=configuration.verify_ssl,
        tls_server_name=getattr(configuration, "tls_server_name", None),
        proxy=configuration.proxy,
        no_proxy=configuration.no_proxy,
        proxy_headers=configuration.proxy_headers or {},
        impersonation=_impersonation(options),
        request_timeout=float(options.get("request_timeout") or Connection.request_timeout),
        retries=Connection.retries if options.get("retries") is None else int(options["retries"]),
        concurrency=concurrency,
    )


def connection_identity(params: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What tells one connection from another, options and environment together, without the credentials."""
    environ = os.environ if environ is None else environ
    options = _with_environment(params, environ)
    kubeconfig = options["kubeconfig"] or environ.get("KUBECONFIG")
    if isinstance(kubeconfig, Mapping):
        kubeconfig = {key: kubeconfig.get(key) for key in ("clusters", "current-context")}
    named = ("context", "host", "username", "impersonate_user", "impersonate_groups")
    return {"kubeconfig": kubeconfig, **{name: options[name] for name in named}}


def _with_environment(params: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, Any]:
    """The options, what is unset taken from the environment. An empty variable counts as unset (AWX sets those)."""
    options = dict(params)
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


def _load(options: Mapping[str, Any]) -> Any:
    """A ``kubernetes.client.Configuration``: complete options need no file, a named file or context is taken, and
    else the pod's service account comes before the default kubeconfig (the order of kubernetes.core)."""
    from kubernetes import config
    from kubernetes.client import Configuration

    configuration = Configuration()
    configuration.host = ""

    def given(*names: str) -> bool:
        return all(options.get(name) for name in names)

    if given("host") and (given("api_key") or given("username", "password") or given("client_cert", "client_key")):
        return configuration
    try:
        if not given("kubeconfig") and not given("context"):
            try:
                config.load_incluster_config(client_configuration=configuration)
                return configuration
            except config.ConfigException:
                pass
        _load_kubeconfig(config, configuration, options)
    except (config.ConfigException, OSError, ValueError, KeyError, TypeError) as problem:
        if given("host") and not given("kubeconfig") and not given("context"):
            return configuration  # An open server (a proxy on this machine) needs no credentials.
        raise ConnectionProblem(_cannot_load(options, problem)) from problem
    return configuration


def _load_kubeconfig(config: Any, configuration: Any, options: Mapping[str, Any]) -> None:
    kubeconfig = options.get("kubeconfig")
    common = {"context": options.get("context"), "client_configuration": configuration}
    if isinstance(kubeconfig, Mapping):
        config.load_kube_config_from_dict(config_dict=kubeconfig, **common)
        return
    persist = options.get("persist_config")
    config.load_kube_config(config_file=kubeconfig or None, persist_config=persist is not False, **common)


def _cannot_load(options: Mapping[str, Any], problem: Exception) -> str:
    kubeconfig = options.get("kubeconfig")
    if isinstance(kubeconfig, Mapping):
        source = "the kubeconfig given as a dictionary"
    else:
        source = f"kubeconfig {kubeconfig or os.environ.get('KUBECONFIG') or '~/.kube/config'}"
    if options.get("context"):
        source += f", context {options['context']}"
    return (
        f"cannot load {source}: {problem}. Set kubeconfig (or K8S_AUTH_KUBECONFIG) to a file that exists and "
        f"context to one of its contexts, or give host and api_key."
    )


def _override(configuration: Any, options: Mapping[str, Any]) -> None:
    """Options win over what the kubeconfig says."""
    from urllib3.util import make_headers

    if options.get("host"):
        configuration.host = options["host"]
    if options.get("api_key"):
        # kubernetes 36 renamed the slot; both are read by every version of the stated range.
        configuration.api_key = {"authorization": f"Bearer {options['api_key']}"}
        configuration.api_key_prefix = {}
        configuration.refresh_api_key_hook = None
    elif options.get("username") and options.get("password"):
        credentials = base64.b64encode(f"{options['username']}:{options['password']}".encode()).decode()
        configuration.api_key = {"authorization": f"Basic {credentials}"}
        configuration.api_key_prefix = {}
        configuration.refresh_api_key_hook = None
    for option, attribute in (
        ("client_cert", "cert_file"),
        ("client_key", "key_file"),
        ("ca_cert", "ssl_ca_cert"),
        ("proxy", "proxy"),
        ("no_proxy", "no_proxy"),
    ):
        if options.get(option):
            setattr(configuration, attribute, options[option])
    if options.get("validate_certs") is not None:
        configuration.verify_ssl = options["validate_certs"]
    if options.get("proxy_headers"):
        configuration.proxy_headers = make_headers(**options["proxy_headers"])


def _authorization(configuration: Any) -> dict[str, str]:
    """The Authorization header, renewed by the library where the kubeconfig names an exec plug-in."""
    for slot in ("authorization", "BearerToken"):
        value = configuration.get_api_key_with_prefix(slot)
        if value:
            return {"Authorization": value}
    return {}


def _impersonation(options: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """Impersonation headers; a group each has its own (Kubernetes, user impersonation)."""
    headers = []
    if options.get("impersonate_user"):
        headers.append(("Impersonate-User", options["impersonate_user"]))
    headers += [("Impersonate-Group", group) for group in options.get("impersonate_groups") or ()]
    return tuple(headers)
