# SPDX-License-Identifier: BSD-2-Clause
"""The options of a request, read from its query (and, for DELETE, its body), and what is said of wrong ones.

Source: apimachinery pkg/apis/meta/v1/validation/validation.go, pkg/apis/meta/internalversion/validation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kubesim import errors
from kubesim.deletion import DeleteOptions
from kubesim.field import FieldError, forbidden, invalid, not_supported, required, too_long

MAX_MANAGER = 128
META = "meta.k8s.io"


class Query:
    """The query of a request: values by name, lists for names given several times."""

    def __init__(self, pairs: Mapping[str, list[str]]) -> None:
        self.pairs = pairs

    def text(self, name: str) -> str:
        return self.pairs.get(name, [""])[0]

    def all(self, name: str) -> list[str]:
        return [value for value in self.pairs.get(name, []) if value]

    def flag(self, name: str) -> bool:
        """Absent, empty-but-given counts as given (metav1 Convert_Slice_string_To_bool)."""
        return name in self.pairs and self.text(name).lower() not in ("false", "0")

    def number(self, name: str) -> int | None:
        text = self.text(name)
        if not text:
            return None
        try:
            return int(text)
        except ValueError:
            raise errors.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from None


@dataclass(frozen=True)
class WriteOptions:
    dry_run: bool
    manager: str
    validation: str  # Strict, Warn, Ignore
    force: bool


def read_write_options(query: Query, kind: str, user_agent: str, *, apply: bool = False) -> WriteOptions:
    """kind: CreateOptions, UpdateOptions or PatchOptions; ApiError 422 in its name."""
    manager, validation = query.text("fieldManager"), query.text("fieldValidation")
    found = _dry_run_errors(query)
    if kind == "PatchOptions":
        if not apply and "force" in query.pairs:
            found.append(forbidden("force", "may not be specified for non-apply patch"))
        if apply and not manager:
            found.append(required("fieldManager", "is required for apply patch"))
    found += _manager_errors(manager)
    if validation not in ("", "Ignore", "Strict", "Warn"):
        found.append(not_supported("fieldValidation", validation, ("", "Ignore", "Strict", "Warn")))
    if found:
        raise errors.invalid(kind, "", found, META)
    default = user_agent.partition("/")[0][:MAX_MANAGER]
    return WriteOptions(bool(query.all("dryRun")), manager or default, validation or "Warn", query.flag("force"))


def _dry_run_errors(query: Query) -> list[FieldError]:
    values = query.all("dryRun")
    return [not_supported("dryRun", values, ("All",))] if any(value != "All" for value in values) else []


def _manager_errors(manager: str) -> list[FieldError]:
    if len(manager) > MAX_MANAGER:
        return [too_long("fieldManager", MAX_MANAGER)]
    return [
        invalid("fieldManager", manager, f"invalid character U+{ord(char):04X} (at position {at})")
        for at, char in enumerate(manager)
        if not char.isprintable()
    ]


def read_delete_options(query: Query, body: dict[str, Any]) -> tuple[DeleteOptions, bool]:
    """The options of a DELETE, body first (a body that is given wins over the query), and whether it is a dry run."""
    if body:
        given = body
    else:
        given = {
            "propagationPolicy": query.text("propagationPolicy") or None,
            "gracePeriodSeconds": query.number("gracePeriodSeconds"),
            "orphanDependents": query.flag("orphanDependents") if "orphanDependents" in query.pairs else None,
            "dryRun": query.all("dryRun"),
        }
    options = DeleteOptions(
        given.get("gracePeriodSeconds"),
        given.get("propagationPolicy"),
        given.get("preconditions") or {},
        given.get("orphanDependents"),
    )
    dry_run = given.get("dryRun") or []
    found = options.validate()
    if any(value != "All" for value in dry_run):
        found.append(not_supported("dryRun", dry_run, ("All",)))
    if found:
        raise errors.invalid("DeleteOptions", "", found, META)
    return options, bool(dry_run)


@dataclass(frozen=True)
class ListOptions:
    label_selector: str
    field_selector: str
    limit: int
    token: str
    version: str
    match: str
    timeout: int | None
    bookmarks: bool
    initial_events: bool | None


def read_list_options(query: Query, *, watch: bool) -> ListOptions:
    initial = query.flag("sendInitialEvents") if "sendInitialEvents" in query.pairs else None
    options = ListOptions(
        query.text("labelSelector"),
        query.text("fieldSelector"),
        max(query.number("limit") or 0, 0),  # storage pages only when limit > 0
        query.text("continue"),
        query.text("resourceVersion"),
        query.text("resourceVersionMatch"),
        query.number("timeoutSeconds"),
        query.flag("allowWatchBookmarks"),
        initial,
    )
    found = _watch_errors(options) if watch else _match_errors(options)
    if found:
        raise errors.invalid("ListOptions", "", found, META)
    return options


def _match_errors(options: ListOptions) -> list[FieldError]:
    """validateListOptions + validateMatch of internalversion."""
    name, match = "resourceVersionMatch", options.match
    found: list[FieldError] = []
    if options.initial_events is not None:
        found.append(forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    if not match:
        return found
    if not options.version:
        found.append(forbidden(name, "resourceVersionMatch is forbidden unless resourceVersion is provided"))
    if options.token:
        found.append(forbidden(name, "resourceVersionMatch is forbidden when continue is provided"))
    if match not in ("Exact", "NotOlderThan"):
        found.append(not_supported(name, match, ("Exact", "NotOlderThan", "")))
    if match == "Exact" and options.version == "0":
        found.append(forbidden(name, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))
    return found


def _watch_errors(options: ListOptions) -> list[FieldError]:
    name, match = "resourceVersionMatch", options.match
    found: list[FieldError] = []
    if options.initial_events is not None and match != "NotOlderThan":
        text = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        found.append(forbidden(name, text))
    if not match:
        return found
    if options.initial_events is None:
        text = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        found.append(forbidden(name, text))
    if match != "NotOlderThan":
        found.append(not_supported(name, match, ("NotOlderThan",)))
    if options.token:
        found.append(forbidden(name, "resourceVersionMatch is forbidden when continue is provided"))
    return found
