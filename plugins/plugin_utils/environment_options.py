# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The keyword ``environment`` of a task: which of its variables become options, and which a module inherits. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..module_utils.kube.connection_options import CREDENTIALS, PROXY_HEADERS, URLS
from ..module_utils.redaction import looks_secret, secret_spans


def environment_credentials(environment: Mapping[str, str], params: Mapping[str, Any]) -> dict[str, Any]:
    """The options for the credentials among ``K8S_AUTH_*`` variables, as far as ``params`` leave them unset.

    Ansible passes the keyword ``environment`` to a module on a command line, which every user of the machine can read.
    """
    texts = (*CREDENTIALS, *URLS)
    given = {name: environment.get(f"K8S_AUTH_{name.upper()}") for name in texts if not params.get(name)}
    options: dict[str, Any] = {name: value for name, value in given.items() if value}
    headers = {name: environment.get(f"K8S_AUTH_PROXY_HEADERS_{name.upper()}") for name in PROXY_HEADERS}
    set_headers = params.get("proxy_headers") or {}
    if any(headers.values()) and isinstance(set_headers, Mapping):
        options["proxy_headers"] = {name: value for name, value in headers.items() if value} | {**set_headers}
    return options


def secret_variables(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that are, or hold, a secret."""
    return {name: value for name, value in environment.items() if looks_secret(name) or secret_spans(value)}


def without_credentials(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that are not passed on as options by ``environment_credentials``."""
    names = (*CREDENTIALS, *URLS, *(f"proxy_headers_{name}" for name in PROXY_HEADERS))
    passed = {f"K8S_AUTH_{name.upper()}" for name in names}
    return {name: value for name, value in environment.items() if name not in passed}
