# SPDX-License-Identifier: BSD-2-Clause
"""The URLs of a job's Services, and the token of a notebook. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from urllib.parse import quote

from .host_address import is_host_address
from .related import main_container

_TOKEN_VARIABLE = "JUPYTER_TOKEN"
# Jupyter Server 2, Jupyter Server 1 and the classic notebook; Jupyter still reads all three.
_TOKEN_FLAG = r"--(?:IdentityProvider|ServerApp|NotebookApp)\.token"
_REFERENCE = r"\$(?:\((?P<kubernetes>\w+)\)|\{(?P<braces>\w+)\}|(?P<shell>\w+))"


@dataclass(frozen=True)
class SecretKey:
    """A value in a Secret."""

    name: str
    key: str


def access_urls(objects: Iterable[Mapping[str, Any]], node_address: str | None, token: str | None = None) -> list[str]:
    """The URLs of the Services among the objects: by load balancer, by node port, and by name within the cluster.

    With ``token``, they sign in to Jupyter.
    """
    path = f"/?token={quote(token, safe='')}" if token else ""
    urls = []
    for service in objects:
        spec = service.get("spec", {})
        ports = spec.get("ports")
        if service["kind"] != "Service" or spec.get("clusterIP") == "None" or not ports:  # as of type ExternalName
            continue
        port = ports[0]
        for ingress in service.get("status", {}).get("loadBalancer", {}).get("ingress") or ():
            address = ingress.get("hostname") or ingress.get("ip")
            if is_host_address(address):
                urls.append(_url(address, port["port"], path))
        if port.get("nodePort") and node_address:
            urls.append(_url(node_address, port["nodePort"], path))
        metadata = service["metadata"]
        urls.append(_url(f"{metadata['name']}.{metadata['namespace']}.svc", port["port"], path))
    return urls


def has_node_port(services: Iterable[Mapping[str, Any]]) -> bool:
    """Whether any of the Services is reached at the address of a node."""
    ports = (port for service in services for port in service.get("spec", {}).get("ports") or ())
    return any(port.get("nodePort") for port in ports)


def notebook_token(workload: Mapping[str, Any]) -> str | SecretKey | None:
    """The token of a workload's Jupyter, or the Secret that holds it; None if neither is found.

    The command line wins over the variable JUPYTER_TOKEN, which is only the default (Jupyter Server,
    ``IdentityProvider._token_default``). With an empty token, Jupyter requires none.
    """
    container = main_container(workload["spec"]["template"]["spec"]["containers"])
    variables = {variable["name"]: variable for variable in container.get("env") or ()}
    argument = _flag_value([*(container.get("command") or ()), *(container.get("args") or ())])
    if argument is None:
        return _variable_value(variables.get(_TOKEN_VARIABLE))
    reference = re.fullmatch(_REFERENCE, argument)
    return _variable_value(variables.get(reference[reference.lastgroup or 0])) if reference else argument or None


def _flag_value(line: Sequence[str]) -> str | None:
    """The value of the last token flag, ``--flag=value`` or ``--flag value``, also within a shell command."""
    words = [word.strip("'\"") for argument in line for word in (argument.split() or [""])]
    found = None
    for word, next_word in pairwise([*words, ""]):
        flag, joined, value = word.partition("=")
        if re.fullmatch(_TOKEN_FLAG, flag):
            found = value.strip("'\"") if joined else next_word
    return found


def _variable_value(variable: Mapping[str, Any] | None) -> str | SecretKey | None:
    if variable is None:
        return None
    secret = (variable.get("valueFrom") or {}).get("secretKeyRef")
    return SecretKey(secret["name"], secret["key"]) if secret else variable.get("value") or None


def _url(host: str, port: int, path: str) -> str:
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{path}"
