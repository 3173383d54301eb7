# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""The types of the manifests' fields: each a rule on one value, with the sentence and the remedy it is refused with.

A refusal never repeats the value; who prints it puts the value in front, unless it is a secret.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Annotated, Any

from .. import quantity
from ..labels import RESERVED_NAMESPACES, SYSTEM_NAMESPACE
from ._pydantic import AfterValidator, BeforeValidator, PydanticCustomError
from .forms import InSchema

# Job names: `svc-<name>` and `<name>-<index>` must be DNS labels (63), and a StatefulSet's pods carry the label
# `controller-revision-hash: <name>-<10 characters>` (pkg/controller/statefulset), so 52 is what every kind can bear.
JOB_NAME_LENGTH = 52
MOST_COMBINATIONS = 500
LABEL_LENGTH = 63
DNS_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
DNS_SUBDOMAIN = rf"{DNS_LABEL}(\.{DNS_LABEL})*"
LABEL_VALUE = r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?"
# Kubernetes 1.34+ (RelaxedEnvironmentVariableValidation) takes any printable name without `=`; older ones this.
ENV_NAME = r"[-._a-zA-Z][-._a-zA-Z0-9]*"
# distribution/reference, as one line: [host[:port]/]path[:tag][@digest].
IMAGE = (
    r"(?:(?:[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?)*|\[[0-9a-fA-F:]+\])"
    r"(?::[0-9]+)?/)?"
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?"
    r"(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?"
)
QUANTITY = r"^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$"
PARAMETER_NAME = r"[A-Za-z_][-A-Za-z0-9_]*"
METRIC_NAME = r"[A-Za-z_:][-A-Za-z0-9_:./]*"
INTERFACE_NAME = r"[!-~]+"
HTTP_PATH = r"/[!-~]*"
_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})


def refuse(problem: str, remedy: str) -> PydanticCustomError:
    """The refusal of one value: `<value> <problem>; <remedy>.`"""
    return PydanticCustomError("value", "{problem}; {remedy}", {"problem": problem, "remedy": remedy})


def refuse_section(problem: str, remedy: str, *within: str | int) -> PydanticCustomError:
    """The refusal of a section for values that do not go together; `within` leads to the one to look at."""
    return PydanticCustomError(
        "section", "{problem}; {remedy}", {"problem": problem, "remedy": remedy, "within": within}
    )


def once(field: str | None = None, identity: Callable[[str], str] = str) -> Callable[[list[Any]], list[Any]]:
    """A rule for lists that Kubernetes merges by key: no two entries are the same, or have the same `field`.

    Server-side apply refuses two entries of one key (structured-merge-diff).
    """

    def check(entries: list[Any]) -> list[Any]:
        seen: set[str] = set()
        for position, entry in enumerate(entries):
            key = entry if field is None else getattr(entry, field)
            if identity(key) in seen:
                raise refuse_section(f"{key} is given twice", "keep one", position, *([field] if field else []))
            seen.add(identity(key))
        return entries

    return check


def some(entries: list[Any]) -> list[Any]:
    """A rule for lists that must have an entry."""
    if not entries:
        raise refuse_section("has no values", "give some, or remove it")
    return entries


def not_too_many(matrix: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """A rule for a matrix: what a person meant to ask for. Each combination is a Job of its own."""
    number = math.prod(len(values) for values in matrix.values())
    if number > MOST_COMBINATIONS:
        raise refuse_section(f"has {number} combinations", f"give at most {MOST_COMBINATIONS}")
    return matrix


def _version(value: str) -> str:
    known = {"0.1": "v0.1", "1": "v1", "1.0": "v1"}
    number = value.removeprefix("v")
    if number not in known:
        raise refuse("is not a version this collection reads", "give v0.1 or v1, or leave it out")
    return known[number]


def _matching(pattern: str, problem: str, remedy: str, longest: int) -> AfterValidator:
    def check(value: str) -> str:
        if len(value) > longest:
            raise refuse(f"has {len(value)} characters", f"use at most {longest}")
        if re.fullmatch(pattern, value) is None:
            raise refuse(problem, remedy)
        return value

    return AfterValidator(check)


def _whole_number(value: Any) -> Any:
    """Text to int, decimal only: YAML 1.1 would read 010 as 8 and 1:30 as 90, which nobody means."""
    text = str(value)
    if isinstance(value, bool) or re.fullmatch(r"[+-]?[0-9]+", text) is None or len(text) > LABEL_LENGTH:
        raise refuse("is not a whole number", "write it in digits")
    if re.fullmatch(r"[+-]?0[0-9]+", text):
        raise refuse("has a leading zero", f"write {int(text)}")
    return int(text)


def _between(lowest: int, highest: int | None, what: str) -> AfterValidator:
    def check(value: int) -> int:
        if value < lowest or (highest is not None and value > highest):
            raise refuse("is not allowed", f"give {what}")
        return value

    return AfterValidator(check)


def _truth(value: Any) -> Any:
    text = str(value).lower()
    if text not in _TRUE | _FALSE:
        raise refuse("is neither true nor false", "write true or false")
    return text in _TRUE


def _quantity(example: str, zero: bool) -> AfterValidator:
    def check(value: str) -> str:
        try:
            amount = quantity.parse(value).value
        except quantity.QuantityError:
            raise refuse("is not a quantity", quantity_remedy(value, example)) from None
        if amount < 0 or (amount == 0 and not zero):
            raise refuse("is not allowed", f"give {'0 or more' if zero else 'more than 0'}, such as {example}")
        return value

    return AfterValidator(check)


def _not_reserved(value: str) -> str:
    if value.startswith(RESERVED_NAMESPACES) or value == SYSTEM_NAMESPACE:
        owner = "gpuctl itself" if value == SYSTEM_NAMESPACE else "Kubernetes itself"
        raise refuse(f"is a namespace of {owner}", "remove it, a limit there can stop the cluster")
    return value


def _target(value: str) -> str:
    if value.endswith("%"):
        raise refuse("has a per cent sign", f"write {value.rstrip('% ')}")
    return value


def quantity_remedy(value: str, example: str) -> str:
    """What was probably meant: 32GB -> 32G or 32Gi, 32gi -> 32Gi."""
    match = re.fullmatch(r"([0-9.]+)\s*([kmgtpe])(i?b?)", value.strip(), re.IGNORECASE)
    if match and not match[1].startswith("."):
        unit = "k" if match[2] in "kK" and "i" not in match[3].lower() else match[2].upper()
        binary = f"{match[1]}{match[2].upper()}i"
        return f"write {binary}" if "i" in match[3].lower() else f"write {binary} (powers of 1024) or {match[1]}{unit}"
    return f"write a number with a Kubernetes unit, such as {example}"


def _absolute_path(value: str) -> str:
    if not value.startswith("/"):
        raise refuse("is not an absolute path", "start it with /")
    if ".." in value.split("/"):
        raise refuse("contains '..'", "write the path without it")
    if re.search(r"[\x00-\x1f\x7f]", value):
        raise refuse("contains a control character", "remove it")
    # A mountPath may not contain ':' (pkg/apis/core/validation ValidateVolumeMounts).
    if ":" in value:
        raise refuse("contains a colon", "Kubernetes mounts no path with ':' in it, rename the directory")
    return value


def _mountable(value: str) -> str:
    if not value.strip("/"):
        raise refuse("is the root directory", "give a directory below it")
    return value


def _nothing_for_empty(value: Any) -> Any:
    """AWX surveys send '' for an unanswered question, and the pool examples write `gpu-type: ""`."""
    return None if value == "" else value


_DNS_REMEDY = "use lower case letters, digits and '-', and begin and end with a letter or digit"

Name = Annotated[
    str,
    _matching(DNS_LABEL, "is not a valid name", _DNS_REMEDY, JOB_NAME_LENGTH),
    InSchema({"pattern": f"^{DNS_LABEL}$", "maxLength": JOB_NAME_LENGTH}),
]
DnsLabel = Annotated[
    str,
    _matching(DNS_LABEL, "is not a valid name", _DNS_REMEDY, LABEL_LENGTH),
    InSchema({"pattern": f"^{DNS_LABEL}$", "maxLength": LABEL_LENGTH}),
]
QuotaNamespace = Annotated[
    DnsLabel,
    AfterValidator(_not_reserved),
    InSchema({"not": {"pattern": f"^({RESERVED_NAMESPACES}|{SYSTEM_NAMESPACE}$)"}}),
]
DnsSubdomain = Annotated[
    str,
    _matching(DNS_SUBDOMAIN, "is not a valid name", "use lower case letters, digits, '-' and '.'", 253),
    InSchema({"pattern": f"^{DNS_SUBDOMAIN}$", "maxLength": 253}),
]
LabelValue = Annotated[
    str,
    _matching(
        LABEL_VALUE,
        "cannot be a node label's value",
        "use letters, digits, '-', '_' and '.', and begin and end with a letter or digit",
        LABEL_LENGTH,
    ),
    InSchema({"pattern": f"^{LABEL_VALUE}$", "maxLength": LABEL_LENGTH}),
]
EmptyIsNone = BeforeValidator(_nothing_for_empty)
EmptyOrLabelValue = InSchema({"pattern": f"^({LABEL_VALUE})?$"})
EnvName = Annotated[
    str,
    _matching(ENV_NAME, "is not a name for an environment variable", "use letters, digits and '_'", 1024),
    InSchema({"pattern": f"^{ENV_NAME}$"}),
]
ParameterName = Annotated[
    str,
    _matching(
        PARAMETER_NAME, "is not a name for a parameter", "use letters, digits, '-' and '_', and begin with a letter", 63
    ),
    InSchema({"pattern": f"^{PARAMETER_NAME}$", "maxLength": 63}),
]
Image = Annotated[
    str,
    _matching(IMAGE, "is not an image reference", "write it as registry/name:tag, the name in lower case", 512),
    InSchema({"pattern": f"^{IMAGE}$"}),
]
HttpPath = Annotated[
    str,
    _matching(HTTP_PATH, "is not an HTTP path", "start it with /, such as /health", 2048),
    InSchema({"pattern": f"^{HTTP_PATH}$"}),
]
MetricName = Annotated[
    str,
    _matching(
        METRIC_NAME, "is not the name of a metric", "give cpu, gpu_utilization or the name of a Pods metric", 253
    ),
    InSchema({"pattern": f"^{METRIC_NAME}$"}),
]
# NCCL_SOCKET_IFNAME takes lists, prefixes and exclusions as well: eth0,ib0 or ^docker or =eth0.
InterfaceName = Annotated[
    str,
    _matching(INTERFACE_NAME, "is not the name of a network interface", "give one such as eth0", 255),
    InSchema({"pattern": f"^{INTERFACE_NAME}$"}),
]
AbsolutePath = Annotated[str, AfterValidator(_absolute_path), InSchema({"pattern": r"^/(?!(.*/)?\.\.(/|$))[^:]*$"})]
MountPath = Annotated[AbsolutePath, AfterValidator(_mountable)]
_Whole = BeforeValidator(_whole_number)
Count = Annotated[int, _Whole, _between(0, 2**31 - 1, "a whole number >= 0"), InSchema({"minimum": 0})]
PositiveCount = Annotated[int, _Whole, _between(1, 2**31 - 1, "a whole number >= 1"), InSchema({"minimum": 1})]
Port = Annotated[
    int,
    _Whole,
    _between(1, 65535, "a port from 1 to 65535"),
    InSchema({"minimum": 1, "maximum": 65535}),
]
Version = Annotated[
    str, AfterValidator(_version), InSchema({"enum": ["v0.1", "v1", "v1.0", "0.1", "1", "1.0", 0.1, 1]})
]
Truth = Annotated[bool, BeforeValidator(_truth)]
CpuQuantity = Annotated[str, _quantity("8 or 500m", zero=False), InSchema({"pattern": QUANTITY, "exclusiveMinimum": 0})]
Amount = Annotated[str, _quantity("32Gi", zero=False), InSchema({"pattern": QUANTITY, "exclusiveMinimum": 0})]
Target = Annotated[
    str,
    AfterValidator(_target),
    _quantity("10 or 500m", zero=False),
    InSchema({"pattern": QUANTITY, "exclusiveMinimum": 0}),
]
CpuLimit = Annotated[str, _quantity("8 or 500m", zero=True), InSchema({"pattern": QUANTITY, "minimum": 0})]
AmountLimit = Annotated[str, _quantity("32Gi", zero=True), InSchema({"pattern": QUANTITY, "minimum": 0})]
