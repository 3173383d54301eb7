# SPDX-License-Identifier: BSD-2-Clause
"""The connection options of every module: argument spec, ``K8S_AUTH_*`` variables, and the connection they describe.

The options, aliases and variables are those of kubernetes.core, so playbooks, ``module_defaults`` and AWX's built-in
credential work unchanged. An option takes precedence over its variable; the rest comes from the kubeconfig or, inside a
pod, from the service account.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from difflib import SequenceMatcher
from functools import partial
from ipaddress import ip_address
from typing import Any
from urllib.parse import unquote, urlsplit

from ..redaction import MASK, mask_forms
from .connection import Connection, basic, bearer, read_pem_option
from .errors import ConnectionProblem
from .kubeconfig import contexts_of, kubeconfig_secrets, missing_files, read_kubeconfig, shown_kubeconfig
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
        "connect_timeout": {"type": "int"},
        "retries": {"type": "int"},
        "allow_plaintext_credentials": {"type": "bool", "no_log": False},
    }


# Option -> its variables without the prefix K8S_AUTH_, in order of precedence: its own name, then its aliases.
ENVIRONMENT: dict[str, tuple[str, ...]] = {
    option: tuple(name.upper() for name in (option, *spec.get("aliases", ())))
    for option, spec in connection_argument_spec().items()
    if option != "proxy_headers"
}
PROXY_HEADERS = tuple(connection_argument_spec()["proxy_headers"]["options"])


def connection_secrets(params: Mapping[str, Any], environ: Mapping[str, str]) -> set[str]:
    """The secrets in the connection options and their variables; those of a kubeconfig file are learned with it."""
    options: dict[str, Any] = {name: params.get(name) for name in CREDENTIALS}
    variables = (environ.get(f"K8S_AUTH_{name}") for option in CREDENTIALS for name in ENVIRONMENT[option])
    headers = [(params.get("proxy_headers") or {}).get(name) for name in PROXY_HEADERS]
    headers += [environ.get(f"K8S_AUTH_PROXY_HEADERS_{name.upper()}") for name in PROXY_HEADERS]
    basic_auth = [str(header) for header in headers if header and ":" in str(header)]
    urls = [{"server": value} for value in (*(params.get(name) for name in URLS), *_urls_in(environ)) if value]
    return {
        *(str(value) for value in (*options.values(), *variables) if value),
        *basic_auth,
        *(header.partition(":")[2] for header in basic_auth if header.partition(":")[2]),
        *kubeconfig_secrets(urls),
        *kubeconfig_secrets(params.get("kubeconfig")),
    }


CREDENTIALS = ("api_key", "password")
URLS = ("host", "proxy")
_SHOWN_URLS = (*URLS, "prometheus_url")


def _urls_in(environ: Mapping[str, str]) -> list[str | None]:
    return [environ.get(f"K8S_AUTH_{name.upper()}") for name in URLS]


def shown_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of a task as its result may return them, with the credentials in URLs and kubeconfig masked."""
    urls = {name: mask_forms(params[name]) for name in _SHOWN_URLS if isinstance(params.get(name), str)}
    kubeconfig = {"kubeconfig": shown_kubeconfig(params["kubeconfig"])} if "kubeconfig" in params else {}
    lists = {name: [_shown_item(item) for item in value] for name, value in params.items() if isinstance(value, list)}
    return {**params, **lists, **urls, **kubeconfig}


def _shown_item(item: Any) -> Any:
    """An item of an option that may have a ``connection``, in which Ansible masks nothing. What is unknown in it may be
    a misspelled credential."""
    if not isinstance(item, Mapping) or "connection" not in item:
        return item
    given = item["connection"]
    if not isinstance(given, Mapping):
        return {**item, "connection": MASK}
    known = connection_argument_spec().keys() - {*CREDENTIALS, "proxy_headers"}
    return {
        **item,
        "connection": {name: value if name in known else MASK for name, value in shown_params(given).items()},
    }


def connection_identity(params: Mapping[str, Any], environ: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What distinguishes one connection from another, from options and environment, without the credentials."""
    environ = os.environ if environ is None else environ
    options = resolve_options(params, environ)
    kubeconfig = options["kubeconfig"] or environ.get("KUBECONFIG")
    if isinstance(kubeconfig, Mapping):
        kubeconfig = {key: kubeconfig.get(key) for key in ("clusters", "current-context")}
    names = ("context", "host", "username", "impersonate_user", "impersonate_groups")
    return {"kubeconfig": kubeconfig, **{name: options[name] for name in names}}


def resolve_connection(
    params: Mapping[str, Any], environ: Mapping[str, str], learn: Callable[[set[str]], object] = set
) -> Connection:
    """The connection that options and environment describe; ``learn`` is called with the secrets that it reads.

    Raises ConnectionProblem if they are wrong, ImportError if they need the missing ``kubernetes`` library.
    """
    options = resolve_options(params, environ)
    for option, (minimum, maximum) in _RANGES.items():
        if options[option] is not None and options[option] < minimum:
            raise ConnectionProblem(f"{option} is too small: {options[option]}. Use {minimum} or more.")
        if options[option] is not None and options[option] > maximum:
            raise ConnectionProblem(f"{option} is too large: {options[option]}. Use {maximum} or less.")
    base = _base_connection(options, environ, learn)
    connection = _without_credentials_in_urls(replace(base, **_overrides(options)))
    if not connection.server:
        raise ConnectionProblem("no API server given. Set host, or kubeconfig and context.")
    if not is_http_url(connection.server):
        raise ConnectionProblem(
            f"not the URL of an API server: {connection.server}. Use one such as https://10.0.0.1:6443."
        )
    if connection.proxy and not is_http_url(connection.proxy):
        address = connection.proxy.rpartition("@")[2]  # without a password
        raise ConnectionProblem(f"not the URL of a proxy: {address}. Use one such as http://10.0.0.1:3128.")
    is_local = is_loopback(connection.server) and not connection.proxy
    if connection.server.startswith("http:") and not is_local and not options["allow_plaintext_credentials"]:
        _require_no_credentials(connection)
    return replace(connection, warning=_redirection(base, connection, options))


def _require_no_credentials(connection: Connection) -> None:
    """As kubectl, which sends none without TLS (client-go, tools/clientcmd/client_config.go)."""
    if connection.authorization():
        raise ConnectionProblem(
            f"credentials would be sent without encryption: {connection.server}. Use https://, or set "
            f"allow_plaintext_credentials to true."
        )


def _redirection(base: Connection, connection: Connection, options: Mapping[str, Any]) -> str | None:
    """The warning if ``host`` replaces the server that a kubeconfig's credentials are for."""
    own = options["api_key"] or (options["username"] and options["password"])
    if own or not base.server or not options["host"] or is_loopback(connection.server):
        return None
    former = _without_credentials_in_urls(base).server
    if urlsplit(former).netloc == urlsplit(connection.server).netloc or not base.authorization():
        return None
    return (
        f"the credentials of the kubeconfig or service account are for {former}, and host sends them to "
        f"{connection.server}. Set context, or api_key for that host."
    )


def _without_credentials_in_urls(connection: Connection) -> Connection:
    """User and password in the URLs as headers, as Go sends them (net/http), so that no message quotes them."""
    server, server_login = split_login(connection.server)
    proxy, proxy_login = split_login(connection.proxy or "")
    connection = replace(connection, server=server, proxy=proxy or None)
    if server_login and not connection.authorization():
        connection = replace(connection, authorization=partial(basic, *server_login))
    if proxy_login and "proxy-authorization" not in connection.proxy_headers:
        header = basic(*proxy_login)["Authorization"]
        connection = replace(connection, proxy_headers={**connection.proxy_headers, "proxy-authorization": header})
    return connection


def split_login(url: str) -> tuple[str, tuple[str, str] | None]:
    scheme, separator, rest = url.partition("://")
    place, slash, path = rest.partition("/")
    login, at, host = place.rpartition("@")
    if not at:
        return url, None
    user, _colon, password = login.partition(":")
    return f"{scheme}{separator}{host}{slash}{path}", (unquote(user), unquote(password))


def is_loopback(server: str) -> bool:
    """Whether nothing that is sent there leaves this machine: a test server, ``kubectl proxy``, a tunnel."""
    host = urlsplit(server).hostname or ""
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


# A day; and what an API server handles at once by default (kube-apiserver, --max-mutating-requests-inflight).
_RANGES = {"request_timeout": (1, 86_400), "connect_timeout": (1, 86_400), "retries": (0, 100), "concurrency": (1, 200)}


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
    for option in ("validate_certs", "persist_config", "allow_plaintext_credentials"):
        if isinstance(options[option], str):
            options[option] = options[option].strip().lower() not in ("0", "false", "no", "off", "n", "f")
    for option in ("request_timeout", "connect_timeout", "retries"):
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


def _base_connection(
    options: Mapping[str, Any], environ: Mapping[str, str], learn: Callable[[set[str]], object]
) -> Connection:
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
    kubeconfig = chosen_kubeconfig(options, environ)
    context = options["context"]
    if isinstance(kubeconfig, str) and "\n" in kubeconfig:
        raise ConnectionProblem("kubeconfig is the content of a file, not a path. Pass it through from_yaml.")
    if connection := read_kubeconfig(kubeconfig, context, learn):
        return connection
    unusable = _unusable_kubeconfig(kubeconfig, context)
    try:
        if unusable:
            raise KubeconfigError(unusable)
        loaded = load_kubeconfig(kubeconfig, context, persist=options["persist_config"] is not False)
    except KubeconfigError as problem:
        if given("host") and not selected:
            return Connection()  # An open server, such as a proxy on this machine, needs no credentials.
        if unusable:
            raise ConnectionProblem(unusable) from None
        where = f"{_title_of(kubeconfig)}{f', context {context}' if context else ''}"
        raise ConnectionProblem(
            f"cannot load {where}: {problem}. Set kubeconfig "
            f"(or K8S_AUTH_KUBECONFIG) to an existing file and context to one of its contexts, or set host and api_key."
        ) from problem
    contexts, current = contexts_of(kubeconfig)
    return replace(loaded, namespace=contexts.get(context or current))


def chosen_kubeconfig(options: Mapping[str, Any], environ: Mapping[str, str]) -> Any:
    return options["kubeconfig"] or environ.get("KUBECONFIG") or "~/.kube/config"


def _unusable_kubeconfig(kubeconfig: str | Mapping[str, Any], context: str | None) -> str | None:
    """What is wrong with it that needs no library to see: no file, or no such context."""
    if missing := missing_files(kubeconfig):
        return (
            f"kubeconfig not found: {os.pathsep.join(missing)}. Set kubeconfig (or K8S_AUTH_KUBECONFIG) to the file by "
            f"which kubectl reaches the cluster, or set host and api_key."
        )
    contexts, current = contexts_of(kubeconfig)
    wanted = context or current
    if not contexts or wanted in contexts:
        return None
    by_nearness = sorted(contexts, key=lambda name: SequenceMatcher(None, name, wanted).ratio(), reverse=True)
    more = f" and {len(contexts) - _CONTEXTS} more" if len(contexts) > _CONTEXTS else ""
    known = ", ".join(by_nearness[:_CONTEXTS]) + more
    where = _title_of(kubeconfig)
    problem = f"context not found in {where}: {wanted}" if wanted else f"no current context in {where}"
    return f"{problem}. Set context to one of: {known}."


def _title_of(kubeconfig: str | Mapping[str, Any]) -> str:
    return "the kubeconfig dictionary" if isinstance(kubeconfig, Mapping) else f"kubeconfig {kubeconfig}"


_CONTEXTS = 10  # named in a message


def _overrides(options: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of Connection that the options set."""
    same = ("validate_certs", "proxy", "no_proxy", *_RANGES)
    overrides: dict[str, Any] = {name: options[name] for name in same if options[name] is not None}
    if options["host"]:
        overrides["server"] = options["host"].rstrip("/")
    if options["api_key"]:
        bearer(options["api_key"])
        overrides["authorization"] = partial(bearer, options["api_key"])
    elif options["username"] and options["password"]:
        overrides["authorization"] = partial(basic, options["username"], options["password"])
    for option in ("client_cert", "client_key", "ca_cert"):
        if options[option]:
            overrides[option] = read_pem_option(option, options[option])
    if options["proxy_headers"]:
        from urllib3.util import make_headers

        overrides["proxy_headers"] = make_headers(**options["proxy_headers"])
    for option in ("impersonate_user", "impersonate_groups", "proxy_headers"):
        if not is_header_value(options[option]):
            raise ConnectionProblem(f"{option} has a line break or another control character. Remove it.")
    user = [("Impersonate-User", options["impersonate_user"])] if options["impersonate_user"] else []
    # Each group is a header of its own (Kubernetes, user impersonation).
    groups = [("Impersonate-Group", group) for group in options["impersonate_groups"] or ()]
    return {**overrides, "impersonation": (*user, *groups)}


def is_header_value(value: Any) -> bool:
    """Whether every text in an option can be sent as a header."""
    if isinstance(value, Mapping):
        value = list(value.values())
    texts = value if isinstance(value, list) else [value or ""]
    return all(re.fullmatch(r"[ -~\u00a0-\u00ff]*", str(text)) for text in texts)


def is_http_url(server: str) -> bool:
    try:
        url = urlsplit(server)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # brackets without an IPv6 address, a port that is not a number
        return False
