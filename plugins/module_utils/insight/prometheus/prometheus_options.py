# SPDX-License-Identifier: BSD-2-Clause
"""The options for the connection to Prometheus: argument spec, ``GPUCTL_PROMETHEUS_*`` variables, and what they say.

They are apart from those of the API server, whose credentials Prometheus must never see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from ...kube.connection import Connection, Peer, authorization_header, basic, read_pem_option
from ...kube.connection_options import is_header_value, is_http_url, is_loopback, split_login
from ...kube.errors import ConnectionProblem
from ...options import Options, option

_PREFIX = "prometheus_"
_VARIABLES = "GPUCTL_PROMETHEUS_"
_TIMEOUT = 60  # seconds
_RETRIES = 2
_AT_ONCE = 4  # queries; by default a Prometheus works on 20 at once, for all that ask

_PEER = Peer(
    name="Prometheus at",
    unreachable="cannot reach Prometheus at ",
    check="O(prometheus_url), and that Prometheus is up",
    timeout="O(prometheus_timeout)",
    authority="O(prometheus_ca_cert)",
    authority_source="O(prometheus_ca_cert)",
    validate="O(prometheus_validate_certs)",
    key="O(prometheus_client_key)",
    certificate_source="O(prometheus_client_cert) and O(prometheus_client_key)",
)


@dataclass(frozen=True, kw_only=True)
class PrometheusOptions(Options):
    """The options; documented in the doc fragment ``runwhere.gpuctl.prometheus``."""

    prometheus_url: str | None = option("str")
    prometheus_service: str | None = option("str")
    prometheus_token: str | None = option("str", no_log=True)
    prometheus_user: str | None = option("str")
    prometheus_password: str | None = option("str", no_log=True)
    prometheus_ca_cert: str | None = option("path")
    prometheus_client_cert: str | None = option("path")
    prometheus_client_key: str | None = option("path", no_log=False)
    prometheus_validate_certs: bool | None = option("bool")
    prometheus_tenant: str | None = option("str")
    prometheus_timeout: int | None = option("int")


@dataclass(frozen=True)
class PrometheusSettings:
    """The options, those that are unset taken from the environment."""

    url: str | None = None
    service: str | None = None
    token: str | None = None
    user: str | None = None
    password: str | None = None
    ca_cert: str | None = None
    client_cert: str | None = None
    client_key: str | None = None
    validate_certs: bool = True
    tenant: str | None = None
    timeout: int = _TIMEOUT

    @property
    def is_set(self) -> bool:
        """Whether the address of Prometheus is given."""
        return bool(self.url or self.service)

    @property
    def headers(self) -> dict[str, str]:
        """Grafana Mimir, Loki and Cortex know a tenant by the first, Thanos by the second; Prometheus has none."""
        return {"X-Scope-OrgID": self.tenant, "THANOS-TENANT": self.tenant} if self.tenant else {}


_NAMES = tuple(each.name for each in fields(PrometheusSettings))
PROMETHEUS_PATHS = tuple(f"{_VARIABLES}{name}" for name in ("CA_CERT", "CLIENT_CERT", "CLIENT_KEY"))


def prometheus_settings(options: PrometheusOptions, environ: Mapping[str, str]) -> PrometheusSettings:
    """The settings of a task. An empty value counts as unset. Raises ConnectionProblem for one that cannot be."""
    found: dict[str, Any] = {}
    for name in _NAMES:
        value = getattr(options, _PREFIX + name)
        value = environ.get(_VARIABLES + name.upper()) if value in (None, "") else value
        if value not in (None, ""):
            found[name] = value
    if isinstance(found.get("validate_certs"), str):
        found["validate_certs"] = found["validate_certs"].strip().lower() not in ("0", "false", "no", "off", "n", "f")
    timeout = str(found.get("timeout", _TIMEOUT))
    if not timeout.isdecimal() or not 1 <= int(timeout) <= 3600:
        raise ConnectionProblem(f"O(prometheus_timeout): {timeout} is not possible. Use 1 to 3600 seconds.")
    settings = PrometheusSettings(**{**found, "timeout": int(timeout)})
    if not is_header_value(settings.tenant):
        raise ConnectionProblem("O(prometheus_tenant) has a line break or another control character. Remove it.")
    if (settings.user or settings.password) and not (settings.user and settings.password):
        missing = "prometheus_password" if settings.user else "prometheus_user"
        raise ConnectionProblem(f"O({missing}) is missing. Set both O(prometheus_user) and O(prometheus_password).")
    return settings


def prometheus_secrets(options: PrometheusOptions, environ: Mapping[str, str]) -> set[str]:
    """The secrets in the options and their variables."""
    named = ("token", "password")
    values = {getattr(options, _PREFIX + name) or environ.get(_VARIABLES + name.upper()) or "" for name in named}
    _url, login = split_login(options.prometheus_url or environ.get(f"{_VARIABLES}URL") or "")
    return (values | {login[1] if login else ""}) - {""}


# In the keyword ``environment``, they become options: Ansible passes it to a module on a command line, which every user
# of the machine can read.
_CREDENTIALS = {f"{_VARIABLES}{name.upper()}": f"{_PREFIX}{name}" for name in ("token", "password", "url")}


def prometheus_credentials(environment: Mapping[str, str], params: Mapping[str, Any]) -> dict[str, Any]:
    """The options for the credentials among the variables, as far as ``params`` leave them unset."""
    given = {option: environment.get(name) for name, option in _CREDENTIALS.items() if not params.get(option)}
    return {option: value for option, value in given.items() if value}


def without_prometheus_credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that are not passed on as options by ``prometheus_credentials``."""
    return {name: value for name, value in environment.items() if name not in _CREDENTIALS}


def prometheus_connection(settings: PrometheusSettings, *, allow_plaintext: bool = False) -> Connection:
    """The connection to ``url``. Raises ConnectionProblem."""
    url, login = split_login((settings.url or "").rstrip("/"))
    if not is_http_url(url) or urlsplit(url).query or urlsplit(url).fragment:
        raise ConnectionProblem(
            f"O(prometheus_url): {url.rpartition('@')[2]} is not the URL of a Prometheus. Use one such as https://prometheus.example.com."
        )
    if login and not settings.user:
        authorization: Callable[[], dict[str, str]] = partial(basic, *login)
    else:
        authorization = _authorization_headers(settings)
    if url.startswith("http:") and authorization() and not is_loopback(url) and not allow_plaintext:
        raise ConnectionProblem(
            f"credentials would be sent without encryption: {url}. Use https:// in O(prometheus_url), or set "
            f"allow_plaintext_credentials to true."
        )
    return Connection(
        server=url,
        authorization=authorization,
        ca_cert=read_pem_option("O(prometheus_ca_cert)", settings.ca_cert),
        client_cert=read_pem_option("O(prometheus_client_cert)", settings.client_cert),
        client_key=read_pem_option("O(prometheus_client_key)", settings.client_key),
        validate_certs=settings.validate_certs,
        request_timeout=float(settings.timeout),
        retries=_RETRIES,
        concurrency=_AT_ONCE,
        peer=_PEER,
    )


def _authorization_headers(settings: PrometheusSettings) -> Callable[[], dict[str, str]]:
    if settings.token:
        try:
            authorization_header(f"Bearer {settings.token.strip()}")
        except ConnectionProblem:
            raise ConnectionProblem(
                "O(prometheus_token) has a space, a line break, or another character that no token has. Check it."
            ) from None
        return partial(authorization_header, f"Bearer {settings.token.strip()}")
    if settings.user and settings.password:
        return partial(basic, settings.user, settings.password)
    return dict
