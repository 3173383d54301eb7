# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Where the services of a job answer, and the token that a notebook asks for. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import quote

from .template import main_container

_TOKEN_VARIABLE = "JUPYTER_TOKEN"
# The spelling of Jupyter Server 2, of 1, and of the classic notebook; Jupyter still reads all three.
_TOKEN_FLAG = r"--(?:IdentityProvider|ServerApp|NotebookApp)\.token"
_REFERENCE = r"\$(?:\((?P<kubernetes>\w+)\)|\{(?P<braces>\w+)\}|(?P<shell>\w+))"


class SecretKey(NamedTuple):
    """Where in a namespace's Secrets a value is kept."""

    name: str
    key: str


def access_urls(objects: Iterable[Mapping[str, Any]], node_address: str | None, token: str | None = None) -> list[str]:
    """Where the Services among the objects answer: load balancer first, then node port, then the name in the cluster.

    With ``token``, as links that sign in to Jupyter.
    """
    path = f"/?token={quote(token, safe='')}" if token else ""
    urls = []
    for service in objects:
        spec = service.get("spec", {})
        if service["kind"] != "Service" or spec.get("clusterIP") == "None":
            continue
        port = spec["ports"][0]
        for ingress in service.get("status", {}).get("loadBalancer", {}).get("ingress") or ():
            urls.append(_url(ingress.get("hostname") or ingress.get("ip"), port["port"], path))
        if port.get("nodePort") and node_address:
            urls.append(_url(node_address, port["nodePort"], path))
        metadata = service["metadata"]
        urls.append(_url(f"{metadata['name']}.{metadata['namespace']}.svc", port["port"], path))
    return urls


def notebook_token(workload: Mapping[str, Any]) -> str | SecretKey | None:
    """The token of the Jupyter that a workload runs, or the Secret that holds it; None where none can be seen.

    A flag of the command line counts before the variable JUPYTER_TOKEN, which is only the flag's default (in Jupyter
    Server, ``IdentityProvider._token_default``). An empty token means that none is asked for.
    """
    container = main_container(workload["spec"]["template"]["spec"]["containers"])
    variables = {variable["name"]: variable for variable in container.get("env") or ()}
    on_the_line = _flag_value([*(container.get("command") or ()), *(container.get("args") or ())])
    if on_the_line is None:
        return _value(variables.get(_TOKEN_VARIABLE))
    reference = re.fullmatch(_REFERENCE, on_the_line)
    return _value(variables.get(reference[reference.lastgroup or 0])) if reference else on_the_line or None


def _flag_value(line: Sequence[str]) -> str | None:
    """What the last flag for the token says, in ``--flag=value`` or ``--flag value``, also in a line for a shell."""
    words = [word.strip("'\"") for argument in line for word in (argument.split() or [""])]
    found = None
    for word, cache in pairwise([*words, ""]):
        flag, joined, value = word.partition("=")
        if re.fullmatch(_TOKEN_FLAG, flag):
            found = value.strip("'\"") if joined else cache
    return found


def _value(variable: Mapping[str, Any] | None) -> str | SecretKey | None:
    if variable is None:
        return None
    secret = (variable.get("valueFrom") or {}).get("secretKeyRef")
    return SecretKey(secret["name"], secret["key"]) if secret else variable.get("value") or None


def _url(host: str, port: int, path: str) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
