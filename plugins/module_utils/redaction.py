# SPDX-License-Identifier: BSD-2-Clause
"""Recognize secrets by the names and the forms of values, and mask them in texts and in Kubernetes objects. Pure.

Where a value has a place (a variable, an argument), it is masked there. Elsewhere a secret is searched for, and only in
what others have written about the same workload: messages, logs, annotations. Names, statuses and our own words stay.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any
from urllib.parse import quote, quote_plus

from .labels import SECRET_ENV

MASK = "********"

# Whole words of a name, so that `tokenizer`, `keyboard` and `max_tokens` are not secrets.
_SECRET_WORDS = frozenset(
    {
        "token", "password", "passwd", "passphrase", "pwd", "pw", "pass", "secret", "secrets", "credential",
        "credentials", "apikey", "accesskey", "secretkey", "privatekey", "authorization", "auth", "bearer", "key",
        "cred", "creds", "pat", "jwt", "sshpass", "dbpass", "userpass", "rootpass", "smtppass", "ldappass", "redispass",
    }
)  # fmt: skip
# Of words that are written together: PGPASSWORD, HFTOKEN.
_ENDING = re.compile(
    r"(?P<owner>.+)(?P<word>password|passwd|passphrase|secret|token|apikey|(?:access|secret|private)key)"
)
# `PASSWORD_FILE` and `TOKEN_URL` say where a secret is, not what it is.
_POINTERS = frozenset(
    {"file", "path", "dir", "name", "url", "uri", "ref", "type", "length", "len", "count", "size", "ttl", "timeout"}
)
# Words before `token` and `key` that have another meaning in machine learning and databases.
_HARMLESS_OWNERS = frozenset(
    {
        "eos", "bos", "pad", "unk", "mask", "sep", "cls", "special", "stop", "image", "video", "audio", "text", "label",
        "input", "output", "prompt", "response", "target", "feature", "data", "dataset", "model", "metric", "column",
        "field", "primary", "foreign", "sort", "partition", "group", "public", "cache", "index", "row", "join", "max",
        "min", "num", "new", "sub",
    }
)  # fmt: skip
# Masking common values in texts would mask everything and hide nothing.
SHORTEST_SECRET = 4
_COMMON = frozenset({"true", "false", "none", "null"})
_FLAG_WITH_VALUE = re.compile(r"(?P<flag>-{0,2}[A-Za-z][\w.\-]*)=(?P<value>.*)", re.DOTALL)
_FLAG = re.compile(r"-{1,2}[A-Za-z][\w.\-]*")
_WORD = re.compile(r"[^\s;&|\"']+")
_WHOLE = re.compile(r".+", re.DOTALL)

# What a secret looks like, whatever the name of its variable; the group `value` is to be masked. Each repetition before
# it is bounded, or cannot start within itself: the texts may be a megabyte of anything.
_FORMS = tuple(
    re.compile(form)
    for form in (
        r"(?i)(?<![a-z0-9+.\-])[a-z][a-z0-9+.\-]{0,30}://[^/\s:@]*:(?P<value>[^/\s]+)@",  # the password in a URL
        r"(?i)(?<![a-z0-9+.\-])[a-z][a-z0-9+.\-]{0,30}://(?P<value>[^/\s:@]{16,})@",  # a token in place of the user
        r"(?:^|[\s\"'=])[\w.\-]{1,64}:(?P<value>[^\s@]{1,128})@(?:tcp6?|unix)\(",  # a DSN of Go's MySQL driver
        r"(?i)https?://hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/(?P<value>[^\s\"'?]+)",
        r"(?i)https?://[^\s\"'?]{1,128}/(?:web)?hook(?:s|b2)?/(?P<value>[^\s\"'?]{8,})",  # Discord, Teams, Feishu, Lark
        r"(?i)https?://[^\s\"'/]{1,128}/bot(?P<value>\d+:[\w\-]+)",  # Telegram
        r"(?i)[?&](?:sig|sign|signature|x-amz-signature|x-goog-signature|code)=(?P<value>[^&\s\"']+)",
        r"(?i)(?<!\w)(?:bearer|basic)\s{1,8}(?P<value>[\w.~+/=\-]{8,})",
        r"(?P<value>-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z))",
        r"(?<![\w\-])(?P<value>gh[pousr]_\w{20,}|github_pat_\w{20,}|glpat-[\w\-]{16,}|hf_[A-Za-z0-9]{20,}"
        r"|sk-[\w\-]{16,}|xox[abeoprs]-[\w\-]{10,}|AIza[\w\-]{30,}|npm_\w{30,}|pypi-[\w\-]{16,}|dckr_pat_[\w\-]{20,}"
        r"|eyJ[\w\-]{10,}\.[\w\-]+(?:\.[\w\-]*)?)",
    )
)
# A name with its value, of which looks_secret tells whether it is one: in a query, a connection string, JSON, YAML.
_PAIRS = (
    re.compile(r"(?<![\w.\-])(?P<name>[A-Za-z][\w.\-]{0,99})\s{0,8}=\s{0,8}(?P<value>\"[^\"]*\"|'[^']*'|[^;&\s\"',]+)"),
    re.compile(r"\"(?P<name>[^\"\\]{1,99})\"\s{0,8}:\s{0,8}\"(?P<value>(?:[^\"\\]|\\.)*)\"", re.DOTALL),
    re.compile(r"^[ \t]*(?:- )?(?P<name>[\w.\-]+):[ \t]+(?P<value>\S.*)$", re.MULTILINE),
)
_CONNECTION_STRING = re.compile(r"(?:^|;)\s{0,8}(?P<name>[A-Za-z][\w.\- ]{0,40}?)\s{0,8}=\s{0,8}(?P<value>[^;]+)")
# Most values have none of what every form and pair has.
_HINT = re.compile(
    r"[=:@]|PRIVATE KEY|gh[pousr]_|github_pat_|glpat-|hf_|sk-|xox|AIza|npm_|pypi-|dckr_pat_|eyJ|(?i:bearer|basic)"
)
_LONGEST_CACHED = 512
_SHORTEST_FORM = 8

Spans = tuple[tuple[int, int], ...]


# -- recognize ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)  # The jobs of a task have most of their names in common.
def looks_secret(name: str) -> bool:
    """Whether a variable, flag or key of that name holds a secret: HF_TOKEN, --api-key, dbPassword, PGPASSWORD."""
    spaced = re.sub(r"([a-z])([A-Z])", r"\1 \2", name)
    words = [word.lower() for word in re.split(r"[^A-Za-z]+", spaced) if word]
    if not words or words[-1] in _POINTERS:
        return False
    return any(_is_secret_word(word, owner) for owner, word in itertools.pairwise(["", *words]))


def _is_secret_word(word: str, owner: str) -> bool:
    if word not in _SECRET_WORDS and (compound := _ENDING.fullmatch(word)):
        owner, word = compound["owner"], compound["word"]
    return word in _SECRET_WORDS and not (word in {"token", "key"} and owner in _HARMLESS_OWNERS)


def secret_spans(text: str) -> Spans:
    """Where a string holds secrets, by their form or by a name before them; start and end of each, in their order."""
    if len(text) < _SHORTEST_FORM or not _HINT.search(text):
        return ()
    return _cached_spans(text) if len(text) <= _LONGEST_CACHED else _spans_in(text)


def _spans_in(text: str) -> Spans:
    found = {match.span("value") for form in _FORMS for match in form.finditer(text)}
    pairs = (*_PAIRS, _CONNECTION_STRING) if ";" in text else _PAIRS
    found |= {
        match.span("value")
        for pattern in pairs
        for match in pattern.finditer(text)
        if looks_secret(match["name"]) and not _is_harmless(match["value"])
    }
    return merged_spans(found)


_cached_spans = lru_cache(maxsize=4096)(_spans_in)  # The jobs of a task have most of their values in common.


def merged_spans(spans: Iterable[tuple[int, int]]) -> Spans:
    """The spans without overlaps."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def _is_harmless(value: str) -> bool:
    """A common word, or a reference to another variable."""
    return value.lower() in _COMMON or _REFERENCE.fullmatch(value) is not None


_REFERENCE = re.compile(r"\$\(\w+\)|\$\{\w+\}")


def secrets_among(
    variables: Iterable[tuple[str, str | None]], line: Sequence[str], marked: Collection[str] = ()
) -> set[str]:
    """The secrets of variables and of a command line, without short and common ones. ``marked``: names of secrets."""
    found = {part for name, value in variables if value for part in _parts(value, name in marked or looks_secret(name))}
    found |= {line[position][start:end] for position, start, end in _argument_spans(line)}
    return {text for text in found if len(text) >= SHORTEST_SECRET and not _is_harmless(text)}


def _parts(value: str, whole: bool) -> list[str]:
    """The value itself, or what is secret in it; of a private key also as JSON keeps it."""
    parts = [value] if whole else [value[start:end].strip("\"'") for start, end in secret_spans(value)]
    return [*parts, *(_unescaped(part) for part in parts if "\\" in part)]


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"'))
    except ValueError:
        return text


def forms_of(secret: str) -> set[str]:
    """A secret in all the ways in which others may quote it: escaped, in a URL, in base64 at any offset."""
    forms = {secret, secret.strip(), *(line.strip() for line in secret.splitlines())}
    forms = {form for form in forms if len(form) >= SHORTEST_SECRET and form.lower() not in _COMMON}
    for form in tuple(forms):
        forms |= {json.dumps(form)[1:-1], json.dumps(form, ensure_ascii=False)[1:-1], repr(form)[1:-1]}
        forms |= {quote(form, safe=""), quote(form), quote_plus(form)}
        data = form.encode("utf-8", "surrogatepass")
        forms.add(repr(data)[2:-1])
        forms |= {text for offset in range(3) for text in _in_base64(data, offset)}
    return forms


def _in_base64(data: bytes, offset: int) -> Iterator[str]:
    """The characters that the data give, whatever stands before and after them."""
    begin = (0, 2, 3)[offset]  # the characters that overlap what comes before
    length = (offset + len(data)) * 8 // 6 if (offset + len(data)) % 3 else None  # the last one depends on what follows
    for encode in (base64.b64encode, base64.urlsafe_b64encode):
        text = encode(b"\0" * offset + data).decode()[begin:length]
        if len(text) >= _SHORTEST_FORM:
            yield text


# -- mask texts --------------------------------------------------------------------------------------------------------


def mask_value(name: str, value: str, marked: Collection[str] = ()) -> str:
    """The value of a variable, with what is secret in it masked."""
    if name in marked or looks_secret(name):
        return value if not value or _is_harmless(value) else MASK
    return mask_forms(value)


def mask_forms(text: str) -> str:
    """The text with what looks like a secret masked."""
    return mask_spans(text, secret_spans(text))


def redact_arguments(arguments: Sequence[str]) -> list[str]:
    """A command line with the values of its secret flags masked."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for position, start, end in _argument_spans(arguments):
        spans.setdefault(position, []).append((start, end))
    return [mask_spans(text, merged_spans(spans.get(position, ()))) for position, text in enumerate(arguments)]


def redact(data: Any, secrets: Iterable[str], only: str | None = None) -> Any:
    """The data (str, list, dict, nested) with every occurrence of the secrets replaced by ********; with ``only``, in
    the values of that key alone, at any depth."""
    pattern = _pattern(secrets)

    def redacted(data: Any, key: str | None) -> Any:
        if isinstance(data, str):
            return pattern.sub(MASK, data) if pattern and key == only else data
        if isinstance(data, Mapping):
            return {key: redacted(value, only and key) for key, value in data.items()}
        return [redacted(item, key) for item in data] if isinstance(data, (list, tuple)) else data

    return redacted(data, None) if pattern else data


def redact_messages(data: Any, secrets: Iterable[str]) -> Any:
    """The data with the secrets masked in every ``message``: the texts of the server and the nodes."""
    return redact(data, secrets, "message")


def line_masker(secrets: Iterable[str]) -> Callable[[str], str]:
    """A function that masks the secrets in a string that comes line by line, also a key of several lines."""
    lines = (line for secret in secrets for line in (secret, *secret.splitlines()))
    pattern = _pattern(line for line in lines if len(line.strip()) >= SHORTEST_SECRET)
    return partial(pattern.sub, MASK) if pattern else str


def _argument_spans(arguments: Sequence[str]) -> set[tuple[int, int, int]]:
    """The secrets of a command line: position of the argument, start and end in it."""
    spans: set[tuple[int, int, int]] = set()
    flagged = False
    for position, argument in enumerate(arguments):
        spans |= {(position, start, end) for start, end in secret_spans(argument)}
        # An argument with spaces is a script (`sh -c "TOKEN=… run"`) and read word by word.
        words = _WORD.finditer(argument) if re.search(r"\s", argument) and not flagged else _WHOLE.finditer(argument)
        for word in words:
            joined = _FLAG_WITH_VALUE.fullmatch(word[0])
            is_flag = _FLAG.fullmatch(word[0]) is not None
            if flagged and not is_flag:
                spans.add((position, word.start(), word.end()))
            elif joined and looks_secret(joined["flag"]):
                spans.add((position, word.start() + joined.start("value"), word.end()))
            flagged = is_flag and looks_secret(word[0])
    return {span for span in spans if span[1] < span[2]}


def mask_spans(text: str, spans: Spans) -> str:
    """The text with the spans masked, which are in their order and do not overlap."""
    ends = [0, *(end for _start, end in spans)]
    starts = [*(start for start, _end in spans), len(text)]
    return MASK.join(text[end:start] for end, start in zip(ends, starts, strict=True))


def _pattern(secrets: Iterable[str]) -> re.Pattern[str] | None:
    """Matches any of the secrets, as they are and as JSON and Go quote them."""
    texts = {text for secret in secrets if secret for text in (secret, json.dumps(secret, ensure_ascii=False)[1:-1])}
    longest_first = sorted(texts, key=len, reverse=True)
    return re.compile("|".join(re.escape(text) for text in longest_first)) if longest_first else None


# -- Kubernetes objects ------------------------------------------------------------------------------------------------


def live_secret_values(obj: Mapping[str, Any]) -> set[str]:
    """The secrets in the containers of a workload, or of what a ControllerRevision keeps of one."""
    marked = marked_variables(obj)
    found: set[str] = set()
    for container in _workload_containers(obj):
        variables = [(each["name"], each.get("value")) for each in _items_in(container, "env")]
        found |= secrets_among(
            variables, [*_block_texts(container, "command"), *_block_texts(container, "args")], marked
        )
    kept = obj.get("data") if obj.get("kind") == "ControllerRevision" else None
    return found.union(*map(live_secret_values, _items_in(kept or {}, "objects")))


def marked_variables(workload: Mapping[str, Any]) -> frozenset[str]:
    """The names of the variables that their manifest marks as secret; others may have written the annotation."""
    text = ((workload.get("metadata") or {}).get("annotations") or {}).get(SECRET_ENV) or "[]"
    try:
        names = json.loads(text)
    except (ValueError, RecursionError):
        return frozenset()
    return frozenset(name for name in names if isinstance(name, str)) if isinstance(names, list) else frozenset()


def masked_object(obj: Mapping[str, Any], marked: Collection[str] = ()) -> dict[str, Any]:
    """The object without secrets: masked in its containers, in messages, and in the copy of itself that kubectl keeps.

    ``marked``: names of variables that are secret besides those that the object itself marks.
    """
    secrets = live_secret_values(obj)
    masked: dict[str, Any] = {**obj, "status": redact_messages(obj["status"], secrets)} if "status" in obj else {**obj}
    annotations = (obj.get("metadata") or {}).get("annotations") or {}
    if _LAST_APPLIED in annotations:
        shown = {**annotations, _LAST_APPLIED: redact(annotations[_LAST_APPLIED], secrets)}
        masked["metadata"] = {**obj["metadata"], "annotations": shown}
    if obj.get("kind") == "Secret":
        masked |= {part: dict.fromkeys(obj[part], MASK) for part in ("data", "stringData") if obj.get(part)}
    if pod := _pod_spec(obj):
        marked = {*marked, *marked_variables(obj)}
        lists = {part: [_masked_container(one, marked) for one in pod[part]] for part in _CONTAINERS if pod.get(part)}
        template = obj["spec"]["template"]
        masked["spec"] = {**obj["spec"], "template": {**template, "spec": {**pod, **lists}}}
    return masked


_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_CONTAINERS = ("containers", "initContainers", "ephemeralContainers")


def _masked_container(container: Mapping[str, Any], marked: Collection[str]) -> dict[str, Any]:
    masked = dict(container)
    if container.get("env"):
        masked["env"] = [
            {**each, "value": mask_value(each["name"], each["value"], marked)} if each.get("value") else each
            for each in container["env"]
        ]
    # One command line of both: the last item of the command may be a flag, and the first of args its value.
    command, args = _block_texts(container, "command"), _block_texts(container, "args")
    line = redact_arguments([*command, *args])
    masked |= {"command": line[: len(command)]} if command else {}
    return masked | ({"args": line[len(command) :]} if args else {})


def _workload_containers(workload: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    pod = _pod_spec(workload)
    return (container for part in _CONTAINERS for container in _items_in(pod, part))


def _pod_spec(workload: Mapping[str, Any]) -> Mapping[str, Any]:
    template = (workload.get("spec") or {}).get("template") or {}
    return template.get("spec") or {}


def _items_in(data: Mapping[str, Any], part: str) -> list[Mapping[str, Any]]:
    return data.get(part) or []


def _block_texts(container: Mapping[str, Any], part: str) -> list[str]:
    return container.get(part) or []
