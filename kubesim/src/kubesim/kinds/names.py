# SPDX-License-Identifier: BSD-2-Clause
"""What names, label keys, label values, ports and the like may look like: each rule returns its complaints.

Sources: staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go ("... characters") and
pkg/api/validate/content/{kube,dns}.go, which label keys and values go through ("... bytes").
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable

#: A rule: the value -> what is wrong with it, in words.
Rule = Callable[[str], list[str]]

_LABEL_FORMAT = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN_FORMAT = rf"{_LABEL_FORMAT}(\.{_LABEL_FORMAT})*"
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character"
)
_KEY_FORMAT = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_KEY_TEXT = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
)
_VALUE_FORMAT = f"({_KEY_FORMAT})?"
_CONFIG_KEY_FORMAT = "[-._a-zA-Z0-9]+"
_HEADER_FORMAT = "[-A-Za-z0-9]+"


def dns_label(value: str) -> list[str]:
    if "." in value and re.fullmatch(_SUBDOMAIN_FORMAT, value):
        return [*_too_long(value, 63), "must not contain dots"]
    return _too_long(value, 63) + _mismatch(value, _LABEL_FORMAT, _LABEL_TEXT, "my-name", "123-abc")


def dns_subdomain(value: str) -> list[str]:
    return _too_long(value, 253) + _mismatch(value, _SUBDOMAIN_FORMAT, _SUBDOMAIN_TEXT, "example.com")


def path_segment(value: str) -> list[str]:
    """Names of RBAC objects, metrics and the like: whatever can stand in a URL path."""
    if value in (".", ".."):
        return [f"may not be '{value}'"]
    return [f"may not contain '{character}'" for character in "/%" if character in value]


def label_key(value: str) -> list[str]:
    """IsQualifiedName, IsLabelKey: "name" or "example.com/name"."""
    parts = value.split("/")
    if len(parts) > 2:
        return [
            f"a valid label key {_regex_error(_KEY_TEXT, _KEY_FORMAT, 'MyName', 'my.name', '123-abc')}"
            " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    complaints = []
    if len(parts) == 2:
        prefix = parts[0]
        if not prefix:
            complaints.append("prefix part must be non-empty")
        else:
            wrong = _too_long(prefix, 253, "bytes") + _mismatch(
                prefix, _SUBDOMAIN_FORMAT, _SUBDOMAIN_TEXT, "example.com"
            )
            complaints += [f"prefix part {text}" for text in wrong]
    name = parts[-1]
    if not name:
        complaints.append("name part must be non-empty")
    complaints += [f"name part {text}" for text in _too_long(name, 63, "bytes")]
    complaints += [
        f"name part {text}" for text in _mismatch(name, _KEY_FORMAT, _KEY_TEXT, "MyName", "my.name", "123-abc")
    ]
    return complaints


def label_value(value: str) -> list[str]:
    text = f"a valid label must be an empty string or {_KEY_TEXT.removeprefix('must ')}"
    return _too_long(value, 63, "bytes") + _mismatch(value, _VALUE_FORMAT, text, "MyValue", "my_value", "12345")


def env_name(value: str) -> list[str]:
    """IsRelaxedEnvVarName."""
    complaints = [] if value else ["environment variable name must be non-empty"]
    if any(not " " <= character <= "~" or character == "=" for character in value):
        complaints.append(
            "a valid environment variable name must consist only of printable ASCII characters other than '='"
        )
    return complaints


def config_key(value: str) -> list[str]:
    """Keys of ConfigMaps and Secrets."""
    text = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
    complaints = _too_long(value, 253)
    complaints += _mismatch(value, _CONFIG_KEY_FORMAT, text, "key.name", "KEY_NAME", "key-name")
    if value in (".", ".."):
        complaints.append(f"must not be '{value}'")
    elif value.startswith(".."):
        complaints.append("must not start with '..'")
    return complaints


def c_identifier(value: str) -> list[str]:
    text = (
        "a valid C identifier must start with alphabetic character or '_', "
        "followed by a string of alphanumeric characters or '_'"
    )
    return _mismatch(value, "[A-Za-z_][A-Za-z0-9_]*", text, "my_name", "MY_NAME", "MyName")


def port_name(value: str) -> list[str]:
    """IANA service names."""
    complaints = _too_long(value, 15)
    if not re.fullmatch("[-a-z0-9]+", value):
        complaints.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search("[a-z]", value):
        complaints.append("must contain at least one letter (a-z)")
    if "--" in value:
        complaints.append("must not contain consecutive hyphens")
    if value.startswith("-") or value.endswith("-"):
        complaints.append("must not begin or end with a hyphen")
    return complaints


def port_number(value: int) -> list[str]:
    return [] if 1 <= value <= 65535 else ["must be between 1 and 65535, inclusive"]


def http_header(value: str) -> list[str]:
    text = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return _mismatch(value, _HEADER_FORMAT, text, "X-Header-Name")


def percent(value: str) -> list[str]:
    text = "a valid percent string must be a numeric string followed by an ending '%'"
    return _mismatch(value, "[0-9]+%", text, "1%", "93%")


def ip(value: str) -> list[str]:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        return ["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]
    return []


def user_id(value: int) -> list[str]:
    return [] if 0 <= value <= 2147483647 else ["must be between 0 and 2147483647, inclusive"]


def as_prefix(value: str) -> str:
    """maskTrailingDash: a generateName may end in a dash, something will follow it."""
    return value[:-2] + "a" if len(value) > 1 and value.endswith("-") else value


def _too_long(value: str, limit: int, unit: str = "characters") -> list[str]:
    return [f"must be no more than {limit} {unit}"] if len(value.encode()) > limit else []


def _mismatch(value: str, pattern: str, text: str, *examples: str) -> list[str]:
    return [] if re.fullmatch(pattern, value) else [_regex_error(text, pattern, *examples)]


def _regex_error(text: str, pattern: str, *examples: str) -> str:
    quoted = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {quoted}regex used for validation is '{pattern}')"
