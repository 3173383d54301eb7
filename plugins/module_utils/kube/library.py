# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""What only the ``kubernetes`` library can do: exec plug-ins, auth providers, service accounts, naming mistakes.

Importing it takes as long as a short task, so each function does that for itself. ImportError: it is not installed.
"""

from __future__ import annotations

from collections.abc import Mapping
from threading import Lock
from typing import Any

from .credentials import Credentials, read_pem


class CannotLoad(Exception):
    """A kubeconfig leads nowhere; the text says why."""


def service_account_credentials() -> Credentials | None:
    """That of the surrounding pod; None outside of a pod."""
    from kubernetes import config

    configuration = _empty_configuration()
    try:
        config.load_incluster_config(client_configuration=configuration)
    except config.ConfigException:
        return None
    return _access(configuration)


def kubeconfig_credentials(kubeconfig: str | Mapping[str, Any], context: str | None, *, persist: bool) -> Credentials:
    """Raises CannotLoad. ``persist``: save a renewed token in the file."""
    from kubernetes import config

    configuration = _empty_configuration()
    common = {"context": context, "client_configuration": configuration}
    try:
        if isinstance(kubeconfig, str):
            config.load_kube_config(config_file=kubeconfig, persist_config=persist, **common)
        else:
            config.load_kube_config_from_dict(config_dict=kubeconfig, **common)
        return _access(configuration)
    except (config.ConfigException, OSError, ValueError, KeyError, TypeError) as problem:
        raise CannotLoad(str(problem)) from problem
    finally:
        _remove_files()


def _empty_configuration() -> Any:
    """A ``kubernetes.client.Configuration``."""
    from kubernetes.client import Configuration

    configuration = Configuration()
    configuration.host = ""
    # Since version 37 it is taken from HTTPS_PROXY, which the documentation of our options says is not looked at.
    configuration.proxy = None
    return configuration


def _access(configuration: Any) -> Credentials:
    renewing = Lock()

    def authorization() -> dict[str, str]:
        # Requests are sent side by side, and the library renews for each that finds the token expired: the plug-in
        # would run as many times, and a refresh token that works once would be used as often.
        with renewing:
            return _authorization(configuration)

    return Credentials(
        server=configuration.host.rstrip("/"),
        authorization=authorization,
        ca_cert=_pem(configuration.ssl_ca_cert),
        client_cert=_pem(configuration.cert_file),
        client_key=_pem(configuration.key_file),
        validate_certs=configuration.verify_ssl,
        tls_server_name=configuration.tls_server_name,
        proxy=configuration.proxy,
    )


def _pem(path: str | None) -> str | None:
    return read_pem(path) if path else None


def _authorization(configuration: Any) -> dict[str, str]:
    """The Authorization header, renewed by the library where the kubeconfig names an exec plug-in.

    Version 36 renamed the slot from the first to the second.
    """
    values = [configuration.get_api_key_with_prefix(slot) for slot in ("authorization", "BearerToken")]
    _remove_files()
    return next(({"Authorization": value} for value in values if value), {})


def _remove_files() -> None:
    """Of certificates and keys that the library has as data. It removes them itself when the interpreter ends, which a
    worker process of Ansible never does (multiprocessing leaves by ``os._exit``)."""
    from kubernetes.config import kube_config

    kube_config._cleanup_temp_files()
