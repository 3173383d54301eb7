# SPDX-License-Identifier: BSD-2-Clause
"""Validate what gpuctl_node_label sets or removes, before any request is sent. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..labels import DNS_LABEL, LABEL_LENGTH, LABEL_VALUE, POOL, PREFIX, RESERVED_POOLS
from ..task import TaskFailed

if TYPE_CHECKING:
    from .node_label_options import NodeLabelOptions

Labels = dict[str, "str | None"]  # by full key, None removes the label, whatever its value

_CHARACTERS = "Use letters, digits, '-', '_' and '.', and begin and end with a letter or digit."
_LEAVE_POOL = "To remove nodes from their pool, remove the label (null)."


def desired_labels(options: NodeLabelOptions) -> Labels:
    """The labels by full key; of those to remove, the value that goes. Raises TaskFailed with all errors at once."""
    keys_alone = options.state == "absent" and options.labels is None
    option = "keys" if keys_alone else "labels"
    given: dict[str, Any] = dict.fromkeys(options.keys or ()) if keys_alone else options.labels or {}
    errors: list[str] = []
    # An empty variable must not select every node of the cluster.
    if options.pool is not None and not _is_label_value(options.pool):
        errors.append(f"pool: invalid name {options.pool!r}. {_CHARACTERS}")
    if options.selector is not None and not options.selector.strip():
        errors.append(
            "selector: must not be empty, because it would select every node. For that, use kubernetes.io/os."
        )
    if not given:
        errors.append(f"{option}: must not be empty. Name at least one label.")
    labels: Labels = {}
    for key, value in given.items():
        place = f"{option}: {key}:" if keys_alone else f"{option}.{key}:"
        full_key = key if "/" in key else PREFIX + key
        errors += [f"{place} {error}" for error in _key_errors(full_key)]
        if full_key in labels:
            errors.append(f"{place} given with and without the prefix {PREFIX}. Remove one of them.")
        labels[full_key] = _yaml_text(value)
        errors += [f"{place} {error}" for error in _value_errors(full_key, value, labels[full_key])]
    if errors:
        raise TaskFailed.before_any_write(errors)
    return labels


# Kubernetes, apimachinery/pkg/util/validation: IsQualifiedName and IsValidLabelValue.


def _key_errors(key: str) -> Iterable[str]:
    prefix, name = key.split("/", 1)
    if f"{prefix}/" != PREFIX:
        yield f"the prefix {prefix}/ is not allowed. Use {PREFIX} or no prefix."
    elif len(name) > LABEL_LENGTH:
        yield f"the key has {len(name)} characters after the prefix. Use at most {LABEL_LENGTH}."
    elif not re.fullmatch(LABEL_VALUE, name):
        yield f"invalid label key. {_CHARACTERS}"


def _value_errors(key: str, value: Any, text: str | None) -> Iterable[str]:
    if isinstance(value, (dict, list)):
        yield f"the value is a {'map' if isinstance(value, dict) else 'list'}. Use a string."
    elif text is not None and len(text) > LABEL_LENGTH:
        yield f"the value has {len(text)} characters: {text}. Use at most {LABEL_LENGTH}."
    elif text and not re.fullmatch(LABEL_VALUE, text):
        yield f"invalid label value {text!r}. {_CHARACTERS}"
    elif key == POOL and text in RESERVED_POOLS:
        yield f"the name {text} is reserved, because it {RESERVED_POOLS[text]}. {_LEAVE_POOL}"
    elif key == POOL and text == "":
        yield f"must not be empty. {_LEAVE_POOL}"
    elif key == POOL and text is not None and not re.fullmatch(DNS_LABEL, text):  # It names the pool's ConfigMap.
        yield f"invalid pool name {text!r}. Use lower case letters, digits and '-'."


def _is_label_value(text: str) -> bool:
    return len(text) <= LABEL_LENGTH and bool(re.fullmatch(LABEL_VALUE, text))


def _yaml_text(value: Any) -> str | None:
    """The value as YAML spells it: str() makes True of true."""
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)
