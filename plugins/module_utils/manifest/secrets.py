# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Which values of a manifest are secrets, and texts without them. Pure; imports no model.

A value is a secret by the name it is given: an environment variable, a flag of the command line or a field
whose name says token, password, secret or key.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MASK = "********"

# Whole words of a name: `tokenizer`, `keyboard`, `max_tokens` and `secretKeyRef` are none.
_SECRET_WORDS = frozenset(
    {
        "token", "password", "passwd", "passphrase", "pwd", "pass", "secret", "secrets", "credential", "credentials",
        "apikey", "accesskey", "secretkey", "privatekey", "authorization", "auth", "bearer",
    }
)  # fmt: skip
_KEY_OWNERS = frozenset({"api", "access", "secret", "private", "ssh", "encryption", "signing", "license", "account"})
_FLAG_WITH_VALUE = re.compile(r"(?P<flag>-{0,2}[A-Za-z][\w.\-]*)=(?P<value>.*)", re.DOTALL)
_FLAG = re.compile(r"-{1,2}[A-Za-z][\w.\-]*")
_URL_PASSWORD = re.compile(r"[a-z][a-z0-9+.\-]*://[^/\s:@]*:(?P<value>[^/\s@]+)@", re.IGNORECASE)


def looks_secret(name: str) -> bool:
    """Whether a variable, flag or key of that name holds a secret: HF_TOKEN, --api-key, dbPassword."""
    words = _words(name)
    owned_key = any(word in {"key", "keys"} and owner in _KEY_OWNERS for owner, word in itertools.pairwise(words))
    return owned_key or words == ["key"] or not _SECRET_WORDS.isdisjoint(words)


def secret_values(model: Any) -> set[str]:
    """The secrets of a manifest (any model of models.py): values to pass to no_log and to `redact`.

    Empty for pools and quotas. Empty strings are left out: masking them would mask everything.
    """
    environment = getattr(model, "environment", None)
    if environment is None:
        return set()
    found = {entry.value for entry in environment.env if entry.value and looks_secret(entry.name)}
    for text in [entry.value for entry in environment.env if entry.value]:
        found |= _url_passwords(text)
    # One line of both: a flag may end the command and its value begin the args.
    found |= _argument_secrets([*environment.command, *environment.args])
    return found


def redact(data: Any, secrets: Iterable[str]) -> Any:
    """The data (str, list, dict, nested) with every occurrence of the secrets replaced by ********."""
    pattern = _pattern(secrets)
    return data if pattern is None else _redacted(data, pattern)


def redact_arguments(arguments: Sequence[str]) -> list[str]:
    """A command line with the values of its secret flags masked."""
    secrets = _argument_secrets(arguments)
    return [_mask_whole(argument, secrets) for argument in arguments]


def _words(name: str) -> list[str]:
    spaced = re.sub(r"([a-z0-9])([A-Z])", r"\1 \2", name)
    return [word.lower() for word in re.split(r"[^A-Za-z0-9]+", spaced) if word]


def _argument_secrets(arguments: Sequence[str]) -> set[str]:
    found: set[str] = set()
    for position, argument in enumerate(arguments):
        found |= _url_passwords(argument)
        joined = _FLAG_WITH_VALUE.fullmatch(argument)
        if joined:
            if looks_secret(joined["flag"]):
                found.add(joined["value"])
        elif _FLAG.fullmatch(argument) and looks_secret(argument) and position + 1 < len(arguments):
            value = arguments[position + 1]
            if not _FLAG.fullmatch(value):
                found.add(value)
    found.discard("")
    return found


def _url_passwords(text: str) -> set[str]:
    return {match["value"] for match in _URL_PASSWORD.finditer(text)}


def _pattern(secrets: Iterable[str]) -> re.Pattern[str] | None:
    longest_first = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
    return re.compile("|".join(re.escape(secret) for secret in longest_first)) if longest_first else None


def _redacted(data: Any, pattern: re.Pattern[str]) -> Any:
    if isinstance(data, str):
        return pattern.sub(MASK, data)
    if isinstance(data, Mapping):
        return {key: _redacted(value, pattern) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_redacted(item, pattern) for item in data]
    return data


def _mask_whole(argument: str, secrets: set[str]) -> str:
    pattern = _pattern(secrets)
    return pattern.sub(MASK, argument) if pattern else argument
