# SPDX-License-Identifier: BSD-2-Clause
"""The types of the manifests' fields, and the marks on a field that may be written in other forms.

A type is a `Rule`, from which its errors, its JSON Schema and its line in the guide follow. Errors never repeat the
value: the caller adds it, unless it may be a secret.
"""

from __future__ import annotations

import ipaddress
import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Optional

from .. import quantity
from ..given_times import LONGEST_TIME_LIMIT, SHORTEST_TIME_LIMIT, seconds_of
from ..labels import DNS_LABEL, LABEL_LENGTH, LABEL_VALUE, RESERVED_NAMESPACES, SYSTEM_NAMESPACE, owner_of_reserved
from ._pydantic import PydanticCustomError, core_schema
from .host_paths import normal_path

# Job names: `svc-<name>` and `<name>-<index>` must be DNS labels (63), and a StatefulSet's pods carry the label
# `controller-revision-hash: <name>-<10 characters>` (pkg/controller/statefulset), so 52 fits every kind.
JOB_NAME_LENGTH = 52
MAX_COMBINATIONS = 500
# The hostfile has a line for each node, and a ConfigMap holds 1 MiB (pkg/apis/core/validation ValidateConfigMap). An
# Indexed Job could have 100,000 (pkg/apis/batch/validation, maxParallelismForIndexedJob).
MAX_NODE_COUNT = 7_500
# progressDeadlineSeconds is an int32, and a week is longer than any model takes to load.
_LONGEST_STARTUP = 7 * 24 * 60 * 60
# All annotations of an object may have 256 KiB together (apimachinery, TotalAnnotationSizeLimitB), and a character has
# up to four bytes.
_LONGEST_DESCRIPTION = 60_000
# Of an extended resource, Kubernetes reads the thousandths as an int64 to see that it is a whole number
# (pkg/apis/core/validation ValidateResourceQuantityValue). In bytes, far more than there is.
_MAX_QUANTITY = 10**18
_LONGEST_QUANTITY = 63
# etcd takes requests of 1.5 MiB (--max-request-bytes), in which every field of an object also has its name.
_MAX_OBJECT_BYTES = 768 * 1024
_LONGEST_ESCAPE = 6  # of a control character in JSON
_VOLUME_BYTES = 300  # of the fields of a volume and its mount, and of their names in managedFields
MAX_INTEGER = 2**31 - 1
# distribution/reference, as one line: [host[:port]/]path[:tag][@digest].
_IMAGE = (
    r"(?:(?:[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[-a-zA-Z0-9]*[a-zA-Z0-9])?)*|\[[0-9a-fA-F:]+\])"
    r"(?::[0-9]+)?/)?"
    r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
    r"(?::[A-Za-z0-9_][-A-Za-z0-9_.]{0,127})?"
    r"(?:@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?"
)
_QUANTITY = r"^\+?([0-9]+\.?[0-9]*|\.[0-9]+)([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]+)?$"
# Control characters, and those that are not seen or turn the text around them; file systems may ignore them.
_INVISIBLE = r"\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff"
# Those of YAML 1.1, which PyYAML and so Ansible read (yaml.org/type/bool).
_TRUE = ("true", "yes", "on")
_FALSE = ("false", "no", "off")


@dataclass(frozen=True, eq=False)
class Rule:
    """What a value must be.

    `noun` names such a value, and `words` say what it looks like, with quotes around code. `keywords` are the schema's.
    `check` returns the value for the model or raises `value_error`; with `before`, it gets the text as written.
    """

    noun: str
    words: str
    example: Any
    keywords: dict[str, Any]
    check: Callable[[Any], Any]
    before: bool = False

    @property
    def length(self) -> str:
        """The words for the longest value; empty without a limit."""
        return f", at most {self.keywords['maxLength']} characters" if "maxLength" in self.keywords else ""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        validator = core_schema.no_info_before_validator_function
        return (validator if self.before else core_schema.no_info_after_validator_function)(self.check, handler(source))


class NoPlaceholder:
    """Mark: a field without placeholders `$(matrix.…)`."""


class Aliases:
    """Mark: further names of the field (in snake case)."""

    def __init__(self, *names: str) -> None:
        self.names = names


class OneOrMany:
    """Mark: a list that may be written as its only item."""


@dataclass(frozen=True)
class MapForm:
    """Mark: a list of blocks that may be written as a map from one of their fields to another."""

    key: str
    value: str


class NamesForm:
    """Mark: a map of blocks that may be written as a list of its keys, the blocks empty."""


@dataclass(frozen=True)
class ShortForm:
    """Mark: a block that may be written as the value of one of its fields."""

    field: str


@dataclass(frozen=True)
class DefaultEntry:
    """Mark: a map with one entry that may also be a key of the block that has the map."""

    name: str


def value_error(problem: str, hint: str) -> PydanticCustomError:
    """The error of one value: `<problem>: <value>. <hint>.`"""
    return PydanticCustomError("value", "{problem}. {hint}", {"problem": problem, "hint": hint})


def section_error(problem: str, hint: str, *within: str | int) -> PydanticCustomError:
    """The error of a section whose values do not go together; `within` leads to the one to look at."""
    return PydanticCustomError("section", "{problem}. {hint}", {"problem": problem, "hint": hint, "within": within})


def unique(field: str | None = None, identity: Callable[[str], str] = str) -> Callable[[list[Any]], list[Any]]:
    """A check that no two entries are the same, or have the same `field`: server-side apply rejects these lists."""

    def check(entries: list[Any]) -> list[Any]:
        seen: set[str] = set()
        for position, entry in enumerate(entries):
            key = getattr(entry, field) if field else entry
            if identity(key) in seen:
                raise section_error(f"duplicate entry: {key}", "Keep one", position, *([field] if field else []))
            seen.add(identity(key))
        return entries

    return check


def non_empty(entries: list[Any]) -> list[Any]:
    if not entries:
        raise section_error("empty list", "Add values, or remove the key")
    return entries


def check_divisor(resource: str, divisor: str | None) -> None:
    """Raises the error of a divisor that Kubernetes does not take (pkg/apis/core/validation
    validateContainerResourceDivisor)."""
    if divisor is None:
        return
    allowed = _CPU_DIVISORS if resource.endswith(".cpu") else _BYTE_DIVISORS
    if quantity.canonical(divisor) not in allowed:
        raise section_error(f"unsupported divisor: {divisor}", f"Use one of {', '.join(allowed)}", "divisor")


_CPU_DIVISORS = ("1m", "1")
_BYTE_DIVISORS = ("1", *(f"1{unit}{power}" for power in ("", "i") for unit in (*("k" if not power else "K"), *"MGTPE")))


def is_whole_number(amount: str) -> bool:
    return quantity.parse(amount).value.denominator == 1


def check_object_size(texts: Sequence[str], volumes: int) -> None:
    """Raises the error of a job whose texts and volumes do not fit into an object, with room for its other fields."""
    others = volumes * _VOLUME_BYTES
    if sum(map(len, texts)) * _LONGEST_ESCAPE + others <= _MAX_OBJECT_BYTES:
        return
    written = (json.dumps(text, ensure_ascii=False).encode("utf-8", "surrogatepass") for text in texts)
    if sum(map(len, written)) + others > _MAX_OBJECT_BYTES:
        problem = f"command, args, env and workdirs of more than {_MAX_OBJECT_BYTES // 1024} KiB"
        raise section_error(problem, "Mount large data as a file, with storage.workdirs", "environment")


def limited_combinations(matrix: dict[str, list[Any]]) -> dict[str, list[Any]]:
    number = math.prod(len(values) for values in matrix.values())
    if number > MAX_COMBINATIONS:
        # The number can have more digits than Python converts.
        problem = f"too many combinations: {number}" if number < 10**9 else "too many combinations"
        raise section_error(problem, f"Use at most {MAX_COMBINATIONS}")
    return matrix


def length_rule(longest: int, noun: str, example: str) -> Rule:
    """The rule for any text up to a length."""

    def check(value: str) -> str:
        if len(value) > longest:
            raise value_error(f"too long ({len(value)} characters)", f"Use at most {longest} characters")
        return value

    return Rule(noun, "text", example, {"maxLength": longest}, check)


def text_rule(pattern: str, longest: int, noun: str, words: str, example: str) -> Rule:
    """The rule for a text all of which matches the pattern."""
    check_length = length_rule(longest, noun, example).check

    def check(value: str) -> str:
        check_length(value)
        if re.fullmatch(pattern, value) is None:
            raise value_error(f"invalid {noun}", f"Use {words}, such as {example}")
        return value

    return Rule(noun, words, example, {"pattern": f"^({pattern})$", "maxLength": longest}, check)


def integer_rule(lowest: int, example: int, highest: int | None = None) -> Rule:
    """The rule for a whole number; Kubernetes takes none beyond int32."""
    words = f"a whole number, {lowest} or more" if highest is None else f"a whole number from {lowest} to {highest}"

    def check(value: Any) -> int:
        # Decimal only: YAML 1.1 reads 010 as 8 and 1:30 as 90.
        text = str(value)
        if isinstance(value, bool) or re.fullmatch(r"[+-]?[0-9]{1,63}", text) is None or int(text) < lowest:
            raise value_error("invalid number", f"Use {words}")
        if re.fullmatch(r"[+-]?0[0-9]+", text):
            raise value_error("leading zero", f"Write {int(text)}")
        if int(text) > (highest or MAX_INTEGER):
            raise value_error("number too large", f"Use at most {highest or MAX_INTEGER}")
        return int(text)

    keywords = {"minimum": lowest, "maximum": highest or MAX_INTEGER}
    return Rule("number", words, example, {"pattern": "^[+-]?[0-9]+$", **keywords}, check, before=True)


def quantity_rule(example: str, zero: bool = False) -> Rule:
    """The rule for a quantity of Kubernetes, above 0 unless `zero` is allowed, too."""
    words = "a quantity, 0 or more" if zero else "a quantity of more than 0"

    def check(value: str) -> str:
        if len(value) > _LONGEST_QUANTITY:
            raise value_error(f"too long ({len(value)} characters)", f"Use at most {_LONGEST_QUANTITY} characters")
        try:
            amount = quantity.parse(value).value
        except quantity.QuantityError:
            raise value_error("invalid quantity", _quantity_hint(value, example)) from None
        if amount > _MAX_QUANTITY:
            raise value_error("quantity too large", f"Use at most {quantity.canonical(_MAX_QUANTITY)}")
        if amount < 0 or (amount == 0 and not zero):
            raise value_error("invalid quantity", f"Use {words}, such as {example}")
        return value

    bounds = {"minimum" if zero else "exclusiveMinimum": 0, "maximum": _MAX_QUANTITY}
    keywords = {"pattern": _QUANTITY, "maxLength": _LONGEST_QUANTITY, **bounds}
    return Rule("quantity", words, example, keywords, check)


def _quantity_hint(value: str, example: str) -> str:
    """What was probably meant: 32GB -> 32G or 32Gi, 32gi -> 32Gi."""
    match = re.fullmatch(r"([0-9.]+)\s*([kmgtpe])(i?b?)", value.strip(), re.IGNORECASE)
    if match and not match[1].startswith("."):
        unit = "k" if match[2] in "kK" and "i" not in match[3].lower() else match[2].upper()
        binary = f"{match[1]}{match[2].upper()}i"
        return f"Write {binary}" if "i" in match[3].lower() else f"Write {binary} (powers of 1024) or {match[1]}{unit}"
    return f"Use a number with a Kubernetes unit, such as {example}"


def _check_boolean(value: Any) -> bool:
    text = str(value).lower()
    if text not in _TRUE + _FALSE:
        raise value_error("invalid boolean", "Use true or false")
    return text in _TRUE


def _check_version(value: str) -> str:
    known = {"0.1": "v0.1", "1": "v1", "1.0": "v1"}
    number = value.removeprefix("v")
    if number not in known:
        raise value_error("unsupported version", "Use v0.1 or v1, or remove it")
    return known[number]


def _check_target(value: str) -> Any:
    if value.endswith("%"):
        raise value_error("percent sign in a number", f"Write {value.rstrip('% ')}")
    return _TARGET.check(value)


def _check_quota_namespace(value: str) -> Any:
    _DNS_RULE.check(value)
    if owner := owner_of_reserved(value):
        raise value_error(f"namespace reserved for {owner} itself", "Remove it. A limit there can stop the cluster")
    return value


def _check_cidr(value: str) -> str:
    try:
        ipaddress.ip_network(value)
    except ValueError:
        hint = "Use the first address of a range and its length, as 10.20.0.0/16"
        raise value_error("invalid address range", hint) from None
    return value


def _check_path(value: str) -> str:
    if not value.startswith("/"):
        raise value_error("not an absolute path", "Start it with /")
    if ".." in value.split("/"):
        raise value_error("'..' in a path", "Write the path without it")
    if re.search(f"[{_INVISIBLE}]", value):
        raise value_error("invisible character in a path", "Remove it")
    # A mountPath may not contain ':' (pkg/apis/core/validation ValidateVolumeMounts).
    if ":" in value:
        raise value_error("':' in a path", "Rename the directory. Kubernetes cannot mount such a path")
    return value


def _check_mount_path(value: str) -> str:
    if normal_path(_check_path(value)) == "/":
        raise value_error("root directory", "Use a directory below it")
    return value


_DNS_WORDS = "lower case letters, digits and '-', with a letter or digit first and last"
_LABEL_WORDS = "letters, digits, '-', '_' and '.', with a letter or digit first and last"
_DNS_RULE = text_rule(DNS_LABEL, LABEL_LENGTH, "name", _DNS_WORDS, "team-a")
_LABEL_RULE = text_rule(LABEL_VALUE, LABEL_LENGTH, "label value", _LABEL_WORDS, "A100-100G")
_PATH_KEYWORDS = {"pattern": rf"^/(?!(.*/)?\.\.(/|$))[^:{_INVISIBLE}]*$"}
_MOUNT_KEYWORDS = {"pattern": rf"^/(?!(\.?/)*\.?$)(?!(.*/)?\.\.(/|$))[^:{_INVISIBLE}]*$"}
_PATH_RULE = Rule("path", "an absolute path without '..' and ':'", "/workspace", _PATH_KEYWORDS, _check_path)
_TARGET = quantity_rule("10")
_VERSIONS = ["v0.1", "v1", "v1.0", "0.1", "1", "1.0", 0.1, 1]
_BOOLEANS = [True, False, *(form(word) for word in _TRUE + _FALSE for form in (str, str.title, str.upper))]

Name = Annotated[str, text_rule(DNS_LABEL, JOB_NAME_LENGTH, "name", _DNS_WORDS, "qwen2-7b-sft")]
DnsLabel = Annotated[str, _DNS_RULE]
_QUOTA_NAMESPACE_RULE = replace(
    _DNS_RULE,
    noun="namespace",
    words=f"{_DNS_WORDS}, not a namespace of Kubernetes",
    keywords={**_DNS_RULE.keywords, "not": {"pattern": f"^({RESERVED_NAMESPACES}|{SYSTEM_NAMESPACE}$)"}},
    check=_check_quota_namespace,
)
QuotaNamespace = Annotated[str, _QUOTA_NAMESPACE_RULE]
_SUBDOMAIN_WORDS = "lower case letters, digits, '-' and '.'"
DnsSubdomain = Annotated[str, text_rule(rf"{DNS_LABEL}(\.{DNS_LABEL})*", 253, "name", _SUBDOMAIN_WORDS, "my-secret")]
LabelValue = Annotated[str, _LABEL_RULE]
_GPU_TYPE_RULE = replace(
    _LABEL_RULE,
    words=f"{_LABEL_WORDS}, or empty",
    keywords={**_LABEL_RULE.keywords, "pattern": f"^({LABEL_VALUE})?$"},
    # AWX surveys send '' for an unanswered question, and the pool examples write `gpu-type: ""`.
    check=lambda value: None if value == "" else value,
    before=True,
)
GpuType = Annotated[Optional[LabelValue], _GPU_TYPE_RULE]
# Kubernetes 1.34+ (RelaxedEnvironmentVariableValidation) takes any printable name without `=`; older ones this.
EnvName = Annotated[
    str, text_rule(r"[-._a-zA-Z][-._a-zA-Z0-9]*", 1024, "variable name", "letters, digits and '_'", "HF_HOME")
]
# IsConfigMapKey (apimachinery, pkg/util/validation).
_KEY_WORDS = "letters, digits, '-', '_' and '.', not beginning with '..'"
ConfigKey = Annotated[str, text_rule(r"(?!\.$|\.\.)[-._a-zA-Z0-9]+", 253, "key", _KEY_WORDS, "token")]
# pkg/apis/core/validation validEnvDownwardAPIFieldPathExpressions, and ConvertDownwardAPIFieldLabel for spec.host.
_FIELD_PATH = (
    r"metadata\.(?:name|namespace|uid)|spec\.(?:nodeName|serviceAccountName|host)|status\.(?:hostIPs?|podIPs?)"
    rf"|metadata\.(?:labels|annotations)\['(?:{DNS_LABEL}(?:\.{DNS_LABEL})*/)?{LABEL_VALUE}'\]"
)
_FIELD_WORDS = (
    "'metadata.name', 'metadata.namespace', 'metadata.uid', 'metadata.labels['key']', 'metadata.annotations['key']', "
)
_FIELD_WORDS += "'spec.nodeName', 'spec.serviceAccountName', 'status.hostIP' or 'status.podIP'"
FieldPath = Annotated[str, text_rule(_FIELD_PATH, 253, "field of a pod", _FIELD_WORDS, "status.podIP")]
# pkg/apis/core/validation validContainerResourceFieldPathExpressions and the prefixes of huge pages.
_CONTAINER_RESOURCE = r"(?:limits|requests)\.(?:cpu|memory|ephemeral-storage|hugepages-[0-9]+[KMGTPE]i)"
_CONTAINER_RESOURCE_WORDS = "'limits.' or 'requests.' with 'cpu', 'memory' or 'ephemeral-storage'"
ContainerResource = Annotated[
    str, text_rule(_CONTAINER_RESOURCE, 63, "resource of a container", _CONTAINER_RESOURCE_WORDS, "limits.memory")
]
Description = Annotated[str, length_rule(_LONGEST_DESCRIPTION, "description", "Fine-tuning of Qwen2")]
_PARAMETER_WORDS = "letters, digits, '-' and '_', with a letter first"
ParameterName = Annotated[str, text_rule(r"[A-Za-z_][-A-Za-z0-9_]*", 63, "parameter name", _PARAMETER_WORDS, "lr")]
_IMAGE_WORDS = "'registry/name:tag' with the name in lower case"
Image = Annotated[str, text_rule(_IMAGE, 512, "image reference", _IMAGE_WORDS, "nginx:1.27")]
_REGISTRY_WORDS = "a registry, or a repository in it, as 'registry.example.com/team'"
ImagePrefix = Annotated[
    str,
    text_rule(
        r"(?:localhost|[a-zA-Z0-9][-a-zA-Z0-9]*(?:\.[-a-zA-Z0-9]+)+)(?::[0-9]+)?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*",
        253,
        "registry",
        _REGISTRY_WORDS,
        "registry.example.com",
    ),
]
# Of an extended resource (pkg/apis/core/v1/helper IsExtendedResourceName), and of a label that a vendor sets.
_PREFIXED = rf"{DNS_LABEL}(?:\.{DNS_LABEL})*/{LABEL_VALUE}"
_RESOURCE_WORDS = "'domain/name'"
ExtendedResource = Annotated[
    str, text_rule(_PREFIXED, 253, "name of an extended resource", _RESOURCE_WORDS, "nvidia.com/gpu")
]
_PARTITION_RESOURCE = _PREFIXED.replace(LABEL_VALUE, r"[-A-Za-z0-9_.]*\{partition\}[-A-Za-z0-9_.]*")
PartitionResource = Annotated[
    str,
    text_rule(
        _PARTITION_RESOURCE, 253, "name of a resource", "'domain/name' with '{partition}'", "nvidia.com/mig-{partition}"
    ),
]
# Of attributes and capacity of devices, without a domain (pkg/apis/resource/validation, validateCIdentifier).
DeviceAttribute = Annotated[
    str, text_rule(r"[A-Za-z_][A-Za-z0-9_]*", 32, "name of an attribute", "letters, digits and '_'", "productName")
]
_LABEL_KEY_WORDS = "'name' or 'domain/name'"
LabelKey = Annotated[
    str,
    text_rule(
        rf"(?:{DNS_LABEL}(?:\.{DNS_LABEL})*/)?{LABEL_VALUE}", 253, "label", _LABEL_KEY_WORDS, "nvidia.com/gpu.product"
    ),
]
ProfileName = Annotated[str, replace(_DNS_RULE, example="nvidia")]
QuotaKey = Annotated[
    str,
    text_rule(
        r"(?:requests\.|limits\.)" + _PREFIXED,
        253,
        "key of a ResourceQuota",
        "'limits.domain/name'",
        "limits.nvidia.com/gpumem",
    ),
]


_LONGEST_PATTERN = 1000


def _check_pattern(value: str) -> str:
    if len(value) > _LONGEST_PATTERN:
        raise value_error(f"longer than {_LONGEST_PATTERN} characters", "Shorten it")
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError):
        raise value_error("invalid regular expression", "Correct it as Python's re reads it") from None
    return value


Pattern = Annotated[
    str,
    Rule(
        "regular expression",
        "a regular expression of Python",
        "[1-9]g\\.[0-9]+gb",
        {"maxLength": _LONGEST_PATTERN, "format": "regex"},
        _check_pattern,
    ),
]
_PARTITION = r"[A-Za-z0-9](?:[-A-Za-z0-9_.+]*[A-Za-z0-9])?"
_PARTITION_WORDS = "letters, digits, '.', '-', '_' and '+'"
PartitionName = Annotated[str, text_rule(_PARTITION, LABEL_LENGTH, "partition", _PARTITION_WORDS, "1g.10gb")]
_LIMITED_WORDS = "'name', 'name/partition' or 'name/share'"
LimitedAccelerator = Annotated[
    str, text_rule(rf"{DNS_LABEL}(?:/{_PARTITION})?", 127, "name of an accelerator", _LIMITED_WORDS, "ascend")
]
_FRAMEWORK_WORDS = "lower case letters, digits and '-'"
Framework = Annotated[str, text_rule(DNS_LABEL, LABEL_LENGTH, "framework", _FRAMEWORK_WORDS, "pytorch")]
MemoryUnit = Annotated[str, text_rule(r"[1-9]?[0-9]*[KMGT]i?", 20, "unit", "'Mi', 'Gi' or '256Mi'", "Mi")]
ShortText = Annotated[str, length_rule(253, "text", "GPUs")]
HttpPath = Annotated[str, text_rule(r"/[!-~]*", 2048, "HTTP path", "a path that starts with '/'", "/health")]
_METRIC_WORDS = "'cpu', 'gpu_utilization' or the name of a Pods metric"
# A segment of a path (pkg/apis/autoscaling/validation validateMetricIdentifier).
MetricName = Annotated[
    str, text_rule(r"[A-Za-z_:][-A-Za-z0-9_:.]*", 253, "metric name", _METRIC_WORDS, "vllm:num_requests_waiting")
]
# prometheus/common model/metric.go: what needs no quotes in PromQL.
_SERIES_WORDS = "letters, digits, '_' and ':', no digit first"
SeriesName = Annotated[
    str, text_rule(r"[A-Za-z_:][A-Za-z0-9_:]*", 253, "metric name", _SERIES_WORDS, "DCGM_FI_DEV_GPU_UTIL")
]
_SERIES_LABEL_WORDS = "letters, digits and '_', no digit first"
SeriesLabel = Annotated[str, text_rule(r"[A-Za-z_][A-Za-z0-9_]*", 253, "label", _SERIES_LABEL_WORDS, "UUID")]
# NCCL_SOCKET_IFNAME takes lists, prefixes and exclusions as well: eth0,ib0 or ^docker or =eth0.
InterfaceName = Annotated[str, text_rule(r"[!-~]+", 255, "interface name", "the name of a network interface", "eth0")]
# The name of a host in an inventory. Those of contexts can be ARNs.
ClusterName = Annotated[str, text_rule(r"[!-~]+", 253, "cluster", "the name of its host in the inventory", "frankfurt")]
AbsolutePath = Annotated[str, _PATH_RULE]
MountPath = Annotated[str, replace(_PATH_RULE, example="/models", keywords=_MOUNT_KEYWORDS, check=_check_mount_path)]
_RATIO = r"^(0?\.[0-9]{1,6}|1|1\.0{1,6})$"


def _check_ratio(value: str) -> str:
    if re.fullmatch(_RATIO, value) is None or float(value) == 0:
        raise value_error("invalid ratio", "Use a number above 0, and 1 at most, such as 0.05")
    return value


Cidr = Annotated[str, Rule("address range", "'10.20.0.0/16'", "10.20.0.0/16", {"type": "string"}, _check_cidr)]
Count = Annotated[int, integer_rule(0, 4)]
PositiveCount = Annotated[int, integer_rule(1, 2)]
NodeCount = Annotated[int, integer_rule(1, 2, highest=MAX_NODE_COUNT)]
Percent = Annotated[int, integer_rule(1, 30, highest=100)]
Percentage = Annotated[str, text_rule("(100|[1-9][0-9]?)%", 4, "percentage", "1% to 100%", "80%")]
# MPS serves 48 clients of a GPU (docs.nvidia.com/deploy/mps). accelerator_stack has a configuration for each number.
SharedBy = Annotated[int, integer_rule(2, 4, highest=48)]
StartupTimeout = Annotated[int, integer_rule(1, 1800, highest=_LONGEST_STARTUP)]
Port = Annotated[int, integer_rule(1, 8000, highest=65535)]
_DURATION_WORDS = "a number of minutes, hours or days"
_DURATION = text_rule(r"[1-9][0-9]{0,4}[mhd]", 6, "duration", _DURATION_WORDS, "8h")
IdleTime = Annotated[str, _DURATION]


def _check_time_limit(value: str) -> str:
    _DURATION.check(value)
    if not SHORTEST_TIME_LIMIT <= (seconds_of(value) or 0) <= LONGEST_TIME_LIMIT:
        raise value_error("time limit out of range", "Use 15m to 366d")
    return value


# The same for editors, by digits: 15 to 99,999 minutes, 1 to 8,784 hours, 1 to 366 days.
_TIME_LIMIT_PATTERN = (
    r"^((1[5-9]|[2-9][0-9]|[1-9][0-9]{2,4})m|([1-9][0-9]{0,2}|[1-7][0-9]{3}|8[0-6][0-9]{2}|87[0-7][0-9]|878[0-4])h|"
    r"([1-9][0-9]?|[12][0-9]{2}|3[0-5][0-9]|36[0-6])d)$"
)
TimeLimit = Annotated[
    str,
    replace(
        _DURATION, example="12h", keywords={"pattern": _TIME_LIMIT_PATTERN, "maxLength": 6}, check=_check_time_limit
    ),
]
_RATIO_KEYWORDS = {"pattern": _RATIO, "exclusiveMinimum": 0, "maximum": 1}
Ratio = Annotated[str, Rule("ratio", "a number above 0, and 1 at most", "0.05", _RATIO_KEYWORDS, _check_ratio)]
UserId = Annotated[int, integer_rule(0, 1000)]
Version = Annotated[str, Rule("version", "'v0.1' or 'v1'", "v1", {"enum": _VERSIONS}, _check_version)]
Boolean = Annotated[bool, Rule("boolean", "'true' or 'false'", True, {"enum": _BOOLEANS}, _check_boolean, before=True)]
CpuQuantity = Annotated[str, quantity_rule("500m")]
Amount = Annotated[str, quantity_rule("32Gi")]
Target = Annotated[str, replace(_TARGET, check=_check_target)]
CpuLimit = Annotated[str, quantity_rule("500m", zero=True)]
AmountLimit = Annotated[str, quantity_rule("32Gi", zero=True)]
