# SPDX-License-Identifier: BSD-2-Clause
"""Read kubeconfigs with a token, a password or a certificate without the ``kubernetes`` library.

Importing the library takes longer than a whole task, and most kubeconfigs need nothing else of it. Files, entries and
fields have the library's precedence (kubernetes/config/kube_config.py), and the tests compare both. Everything else is
left to the library: exec plugins, auth providers and the messages for mistakes.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import unquote

from ..redaction import MASK, mask_forms, secret_spans, secrets_among
from .connection import Connection, basic, bearer, read_pem
from .errors import ConnectionProblem


def read_kubeconfig(
    kubeconfig: str | Mapping[str, Any], context: str | None, learn: Callable[[set[str]], object] = set
) -> Connection | None:
    """The connection of a context, by default the current one. ``kubeconfig``: paths joined by ``:``, or a dictionary.

    ``learn`` is called with the secrets of that context. None: connecting, or explaining what is wrong, needs the
    library (``load_kubeconfig``).
    """
    import yaml

    try:
        return _connection_of_context(kubeconfig, context, learn)
    except (_NeedsLibrary, yaml.YAMLError, OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def contexts_of(kubeconfig: str | Mapping[str, Any]) -> tuple[dict[str, str | None], str]:
    """The contexts with their namespaces, none if the kubeconfig cannot be read, and the name of the current one."""
    import yaml

    try:
        entries, current_context = _merge(kubeconfig)
        contexts = {name: entry for (section, name), entry in entries.items() if section == "contexts"}
        found = {name: entry.value.get("namespace") for name, entry in contexts.items()}
    except (_NeedsLibrary, yaml.YAMLError, OSError, ValueError, LookupError, TypeError, AttributeError):
        return {}, ""
    texts = {str(name): str(namespace) if namespace else None for name, namespace in found.items()}
    return texts, str(current_context or "")


def missing_files(kubeconfig: str | Mapping[str, Any]) -> list[str]:
    """The files of a kubeconfig if none of them exists; kubectl, too, ignores some that do not."""
    paths = [path for path in kubeconfig.split(os.pathsep) if path] if isinstance(kubeconfig, str) else []
    return [] if any(os.path.exists(os.path.expanduser(path)) for path in paths) else paths


def kubeconfig_secrets(fields: Any) -> set[str]:
    """The secrets in a kubeconfig, or in a part of it."""
    if isinstance(fields, (list, tuple)):
        return set().union(*map(kubeconfig_secrets, fields))
    if not isinstance(fields, Mapping):
        return set()
    found = {str(value) for key, value in fields.items() if key in _SECRET_FIELDS and value}
    for key in _URL_FIELDS & fields.keys():
        url = str(fields[key])
        found |= {part for start, end in secret_spans(url) for part in (url[start:end], unquote(url[start:end]))}
    variables = [(str(each.get("name")), str(each.get("value"))) for each in _blocks(fields.get("env"))]
    line = fields.get("args")
    found |= secrets_among(variables, [str(word) for word in line] if isinstance(line, list) else ())
    return found.union(*map(kubeconfig_secrets, fields.values()))


def shown_kubeconfig(kubeconfig: Any) -> Any:
    """The option as it is returned: of a dictionary, no credentials, and nothing of what a plugin is called with."""
    if isinstance(kubeconfig, str):
        return MASK if "\n" in kubeconfig else kubeconfig  # the content of a file in place of its path
    if isinstance(kubeconfig, (list, tuple)):
        return [shown_kubeconfig(item) for item in kubeconfig]
    if not isinstance(kubeconfig, Mapping):
        return kubeconfig
    hidden = {key: MASK for key, value in kubeconfig.items() if key in _HIDDEN and value}
    urls = {key: mask_forms(str(kubeconfig[key])) for key in _URL_FIELDS & kubeconfig.keys()}
    return {key: shown_kubeconfig(value) for key, value in kubeconfig.items()} | hidden | urls


_SECRET_FIELDS = frozenset(
    {"token", "password", "client-key-data", "access-token", "id-token", "refresh-token", "client-secret"}
)
_URL_FIELDS = frozenset({"server", "proxy-url"})
_HIDDEN = _SECRET_FIELDS | {"env", "args", "config"}  # config: of an auth provider


def _blocks(items: Any) -> list[Mapping[str, Any]]:
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


class _NeedsLibrary(Exception):
    pass


@dataclass(frozen=True)
class _Entry:
    """A cluster, user or context, and the directory that its relative paths start from."""

    value: Mapping[str, Any]
    directory: str


def _connection_of_context(
    kubeconfig: str | Mapping[str, Any], context: str | None, learn: Callable[[set[str]], object]
) -> Connection:
    entries, current_context = _merge(kubeconfig)
    selected = entries["contexts", context or current_context or ""].value
    cluster = entries["clusters", selected["cluster"]]
    user = entries.get(("users", selected.get("user") or ""), _Entry({}, ""))
    learn(kubeconfig_secrets([cluster.value, user.value]))
    connection = Connection(
        server=cluster.value.get("server", "").rstrip("/"),
        authorization=_authorization(user),
        validate_certs=not cluster.value.get("insecure-skip-tls-verify", False),
        tls_server_name=cluster.value.get("tls-server-name"),
        proxy=cluster.value.get("proxy-url"),
        namespace=str(selected["namespace"]) if selected.get("namespace") else None,
    )
    if not connection.server.startswith("https"):
        return connection
    return replace(
        connection,
        ca_cert=_pem(cluster.value, "certificate-authority", cluster.directory),
        # Relative to the cluster's directory as well: the library's rule.
        client_cert=_pem(user.value, "client-certificate", cluster.directory),
        client_key=_pem(user.value, "client-key", cluster.directory),
    )


def _merge(kubeconfig: str | Mapping[str, Any]) -> tuple[dict[tuple[str, str], _Entry], str | None]:
    """All entries by section and name, and the current context. Of two entries of one name the first file's counts."""
    entries: dict[tuple[str, str], _Entry] = {}
    current_context = None
    for config, directory in _load_files(kubeconfig) if isinstance(kubeconfig, str) else [(kubeconfig, "")]:
        for section in ("clusters", "users", "contexts"):
            for item in config.get(section) or ():
                key = (section, item["name"])
                if key not in entries:
                    entries[key] = _Entry(item[section[:-1]], directory)
                elif not isinstance(kubeconfig, str):
                    raise _NeedsLibrary  # It rejects duplicates in a dictionary.
        # The last file's counts: the library's rule; kubectl takes the first.
        current_context = config.get("current-context", current_context)
    return entries, current_context


def _load_files(paths: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    import yaml

    for path in (os.path.expanduser(path) for path in paths.split(os.pathsep) if path):
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                config = yaml.load(file, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
            yield config, os.path.abspath(os.path.dirname(path))


def _authorization(user: _Entry) -> Callable[[], dict[str, str]]:
    fields = user.value
    if "auth-provider" in fields:
        raise _NeedsLibrary
    if fields.get("token"):
        bearer(fields["token"])
        return partial(bearer, fields["token"])
    if "token" not in fields and fields.get("tokenFile"):
        path = os.path.normpath(os.path.join(user.directory, fields["tokenFile"]))
        _bearer_from(path)
        return partial(_bearer_from, path)
    if "exec" in fields:
        raise _NeedsLibrary
    if "username" in fields and "password" in fields:
        return partial(basic, fields["username"], fields["password"])
    return dict


def _bearer_from(path: str) -> dict[str, str]:
    """Read for each request, since the token in the file may be renewed. Raises ConnectionProblem."""
    try:
        with open(path, encoding="utf-8") as file:
            return bearer(file.read())
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else "not UTF-8"
        raise ConnectionProblem(f"cannot read tokenFile {path} of the kubeconfig: {reason}. Check the path.") from None


def _pem(fields: Mapping[str, Any], name: str, directory: str) -> str | None:
    if f"{name}-data" in fields:
        return base64.standard_b64decode(fields[f"{name}-data"]).decode("ascii", "ignore") or None
    if name in fields:
        return read_pem(os.path.normpath(os.path.join(directory, fields[name])))
    return None
