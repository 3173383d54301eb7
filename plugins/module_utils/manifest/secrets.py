# SPDX-License-Identifier: BSD-2-Clause
"""Find the secrets of a manifest, by the names of variables, flags and fields, and mask them in texts. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any

from .tree import ListNode, MapNode, Node, ScalarNode

MASK = "********"

# Whole words of a name, so that `tokenizer`, `keyboard` and `max_tokens` are not secrets.
_SECRET_WORDS = frozenset(
    {
        "token", "password", "passwd", "passphrase", "pwd", "pass", "secret", "secrets", "credential", "credentials",
        "apikey", "accesskey", "secretkey", "privatekey", "authorization", "auth", "bearer", "key",
    }
)  # fmt: skip
# `PASSWORD_FILE` and `TOKEN_URL` say where a secret is, not what it is.
_POINTERS = frozenset(
    {"file", "path", "dir", "name", "url", "uri", "ref", "type", "length", "len", "count", "size", "ttl", "timeout"}
)
# Words before `token` and `key` that have another meaning in machine learning and databases.
_HARMLESS_OWNERS = frozenset(
    {
        "eos", "bos", "pad", "unk", "mask", "sep", "cls", "special", "stop", "image", "video", "audio", "text", "label",
        "input", "output", "prompt", "response", "target", "feature", "data", "dataset", "model", "metric", "column",
        "field", "primary", "foreign", "sort", "partition", "group", "public", "cache", "index", "row", "join",
    }
)  # fmt: skip
# Masking common values in texts would mask everything and hide nothing.
_SHORTEST = 4
_COMMON = frozenset({"true", "false", "none", "null"})
_FLAG_WITH_VALUE = re.compile(r"(?P<flag>-{0,2}[A-Za-z][\w.\-]*)=(?P<value>.*)", re.DOTALL)
_FLAG = re.compile(r"-{1,2}[A-Za-z][\w.\-]*")
_WORD = re.compile(r"[^\s;&|\"']+")
_WHOLE = re.compile(r".+", re.DOTALL)
# A scheme of any length would be searched from each of its letters.
_URL_PASSWORD = re.compile(r"[a-z][a-z0-9+.\-]{0,31}://[^/\s:@]*:(?P<value>[^/\s@]+)@", re.IGNORECASE)


@lru_cache(maxsize=4096)  # The jobs of a task have most of their names in common.
def looks_secret(name: str) -> bool:
    """Whether a variable, flag or key of that name holds a secret: HF_TOKEN, --api-key, dbPassword."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    words = [word.lower() for word in re.split(r"[^A-Za-z]+", spaced) if word]
    if not words or words[-1] in _POINTERS:
        return False
    return any(
        word in _SECRET_WORDS and not (word in {"token", "key"} and owner in _HARMLESS_OWNERS)
        for owner, word in itertools.pairwise(["", *words])
    )


def secret_values(model: Any) -> set[str]:
    """The secrets of a manifest (any model of models.py), without short and common words. None for pools and quotas."""
    environment = getattr(model, "environment", None)
    if environment is None:
        return set()
    variables = [(entry.name, entry.value) for entry in environment.env]
    # One command line of both: the last item of the command may be a flag, and the first of args its value.
    return _secrets_among(variables, [*environment.command, *environment.args])


def live_secret_values(workload: Mapping[str, Any]) -> set[str]:
    """The same of a Kubernetes workload, because a diff also shows what a manifest replaces."""
    found: set[str] = set()
    for container in workload.get("spec", {}).get("template", {}).get("spec", {}).get("containers") or ():
        variables = [(entry["name"], entry.get("value")) for entry in container.get("env") or ()]
        found |= _secrets_among(variables, [*(container.get("command") or ()), *(container.get("args") or ())])
    return found


def source_secret_values(node: Node) -> set[str]:
    """The same of a manifest that may be invalid: below each key ``env``, ``command`` or ``args``, at any level."""
    if isinstance(node, ListNode):
        return set().union(*(source_secret_values(item) for item in node.items))
    if not isinstance(node, MapNode):
        return set()
    entries = [(name.text, value) for name, value in node.entries]
    line = [text for part in ("command", "args") for name, value in entries if name == part for text in _texts(value)]
    variables = [pair for name, value in entries if name == "env" for pair in _variables(value)]
    return _secrets_among(variables, line).union(*(source_secret_values(value) for _name, value in entries))


def redact(data: Any, secrets: Iterable[str]) -> Any:
    """The data (str, list, dict, nested) with every occurrence of the secrets replaced by ********."""
    pattern = _pattern(secrets)

    def redacted(data: Any) -> Any:
        if isinstance(data, str):
            return pattern.sub(MASK, data) if pattern else data
        if isinstance(data, Mapping):
            return {key: redacted(value) for key, value in data.items()}
        return [redacted(item) for item in data] if isinstance(data, (list, tuple)) else data

    return redacted(data) if pattern else data


def line_masker(secrets: Iterable[str]) -> Callable[[str], str]:
    """A function that masks the secrets in a text that comes line by line, also a key of several lines."""
    lines = (line for secret in secrets for line in (secret, *secret.splitlines()))
    pattern = _pattern(line for line in lines if len(line.strip()) >= _SHORTEST)
    return partial(pattern.sub, MASK) if pattern else str


def redact_arguments(arguments: Sequence[str]) -> list[str]:
    """A command line with the values of its secret flags masked."""
    masked = list(arguments)
    for position, start, end in sorted(_secret_spans(arguments), reverse=True):
        masked[position] = masked[position][:start] + MASK + masked[position][end:]
    return masked


def _secrets_among(variables: Sequence[tuple[str, str | None]], line: Sequence[str]) -> set[str]:
    named = {value for name, value in variables if value and looks_secret(name)}
    in_urls = {value[start:end] for dummy, value in variables if value for start, end in _url_passwords(value)}
    on_the_line = {line[position][start:end] for position, start, end in _secret_spans(line)}
    return {text for text in named | in_urls | on_the_line if len(text) >= _SHORTEST and text.lower() not in _COMMON}


def _texts(node: Node) -> list[str]:
    parts = node.items if isinstance(node, ListNode) else (node,)
    return [part.text for part in parts if isinstance(part, ScalarNode)]


def _variables(node: Node) -> list[tuple[str, str | None]]:
    """Environment variables, from a map or from a list of name and value, of maps or of NAME=value."""
    if isinstance(node, ScalarNode):
        name, _equals, value = node.text.partition("=")
        return [(name, value)]
    if isinstance(node, ListNode):
        return [pair for item in node.items for pair in _variables(item)]
    given = {name.text: value.text for name, value in node.entries if isinstance(value, ScalarNode)}
    return [(given["name"], given["value"])] if {"name", "value"} <= given.keys() else list(given.items())


def _secret_spans(arguments: Sequence[str]) -> set[tuple[int, int, int]]:
    """The secrets of a command line: position of the argument, start and end in it."""
    spans: set[tuple[int, int, int]] = set()
    flagged = False
    for position, argument in enumerate(arguments):
        # An argument with spaces is a script (`sh -c "TOKEN=… run"`) and read word by word.
        words = _WORD.finditer(argument) if re.search(r"\s", argument) and not flagged else _WHOLE.finditer(argument)
        for word in words:
            joined = _FLAG_WITH_VALUE.fullmatch(word[0])
            is_flag = _FLAG.fullmatch(word[0]) is not None
            if flagged and not is_flag:
                spans.add((position, word.start(), word.end()))
            elif joined and looks_secret(joined["flag"]):
                spans.add((position, word.start() + joined.start("value"), word.end()))
            else:
                offset = word.start()
                spans |= {(position, offset + start, offset + end) for start, end in _url_passwords(word[0])}
            flagged = is_flag and looks_secret(word[0])
    return {span for span in spans if span[1] < span[2]}


def _url_passwords(text: str) -> list[tuple[int, int]]:
    return [match.span("value") for match in _URL_PASSWORD.finditer(text)] if "://" in text else []


def _pattern(secrets: Iterable[str]) -> re.Pattern[str] | None:
    longest_first = sorted({secret for secret in secrets if secret}, key=len, reverse=True)
    return re.compile("|".join(re.escape(secret) for secret in longest_first)) if longest_first else None
