# SPDX-License-Identifier: BSD-2-Clause
"""Connections that need the ``kubernetes`` library: exec plugins, auth providers, service accounts.

Importing it takes as long as a short task, so only the functions do. ImportError: it is not installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

from .connection import Connection, authorization_header, read_pem


class KubeconfigError(Exception):
    """A kubeconfig that cannot be used; the text says why."""


def load_kubeconfig(kubeconfig: str | Mapping[str, Any], context: str | None, *, persist: bool) -> Connection:
    """The connection of a context or the current one; ``persist``: save a renewed token. Raises KubeconfigError."""
    import yaml
    from kubernetes import config

    configuration = _empty_configuration()
    common = {"context": context, "client_configuration": configuration}
    try:
        with _logged_errors() as errors:
            if isinstance(kubeconfig, str):
                config.load_kube_config(config_file=kubeconfig, persist_config=persist, **common)
            else:
                config.load_kube_config_from_dict(config_dict=kubeconfig, **common)
        if errors and not configuration.api_key and not configuration.cert_file:
            raise KubeconfigError(errors[-1])
        return _configured_connection(configuration)
    except (config.ConfigException, OSError, ValueError, KeyError, yaml.YAMLError) as problem:
        raise KubeconfigError(" ".join(str(problem).split())) from problem
    except (TypeError, AttributeError) as problem:
        raise KubeconfigError("not the form of a kubeconfig") from problem
    finally:
        _remove_files()


def load_service_account() -> Connection | None:
    """The connection of the surrounding pod's service account; None outside of a pod."""
    from kubernetes import config

    configuration = _empty_configuration()
    try:
        config.load_incluster_config(client_configuration=configuration)
    except config.ConfigException:
        return None
    return replace(_configured_connection(configuration), namespace=_own_namespace())


def _own_namespace() -> str | None:
    """That of the surrounding pod, as in client-go (tools/clientcmd/client_config.go, ``inClusterClientConfig``)."""
    from kubernetes.config import incluster_config

    file = Path(incluster_config.SERVICE_TOKEN_FILENAME).with_name("namespace")
    try:
        return file.read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _empty_configuration() -> Any:
    """A ``kubernetes.client.Configuration``."""
    from kubernetes.client import Configuration

    configuration = Configuration()
    configuration.host = ""
    # Since version 37 the default is HTTPS_PROXY, which our option is documented to ignore.
    configuration.proxy = None
    return configuration


def _configured_connection(configuration: Any) -> Connection:
    renewal = Lock()

    def authorization() -> dict[str, str]:
        # The library renews an expired token in every thread that finds it so: the plugin would run as many times,
        # and a refresh token that is valid once would be used repeatedly.
        with renewal, _logged_errors():
            # Version 36 renamed the slot from the first to the second.
            values = [configuration.get_api_key_with_prefix(slot) for slot in ("authorization", "BearerToken")]
            _remove_files()
        return next((authorization_header(value) for value in values if value), {})

    files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
    ca_cert, client_cert, client_key = (read_pem(path) if path else None for path in files)
    return Connection(
        server=configuration.host.rstrip("/"),
        authorization=authorization,
        ca_cert=ca_cert,
        client_cert=client_cert,
        client_key=client_key,
        validate_certs=configuration.verify_ssl,
        tls_server_name=configuration.tls_server_name,
        proxy=configuration.proxy,
    )


class _ErrorLog:
    """In place of the module ``logging`` in the library."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    def error(self, text: str) -> None:
        self.errors.append(text)


@contextmanager
def _logged_errors() -> Iterator[list[str]]:
    """What the library would print to stderr: why an exec plugin failed, in words of the plugin, with any secret."""
    from kubernetes.config import kube_config

    log, former = _ErrorLog(), kube_config.logging
    kube_config.logging = log
    try:
        yield log.errors
    finally:
        kube_config.logging = former


def _remove_files() -> None:
    """Remove the library's temporary files of certificates and keys.

    It removes them itself when the interpreter exits, which a worker process of Ansible never does (multiprocessing
    leaves by ``os._exit``).
    """
    from kubernetes.config import kube_config

    kube_config._cleanup_temp_files()
