# SPDX-License-Identifier: BSD-2-Clause
"""Names and amounts of compute resources: what a container, a limit range or a quota may say.

Sources: pkg/apis/core/helper/helpers.go (which names are standard, native, extended, integer) and
validateResourceRequirements, ValidateResourceQuantityValue of pkg/apis/core/validation/validation.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kubesim import field
from kubesim.field import FieldError
from kubesim.kinds import names
from kubesim.kinds.metadata import NOT_NEGATIVE
from kubesim.quantity import ZERO, Quantity, parse_list

NOT_INTEGER = "must be an integer"
HUGE_PAGES = "hugepages-"
REQUESTS = "requests."

_CONTAINER = {"cpu", "memory", "ephemeral-storage"}
_COUNTED = {
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
}
_QUOTA = (
    _COUNTED
    | _CONTAINER
    | {f"{prefix}.{name}" for prefix in ("requests", "limits") for name in _CONTAINER}
    | {"requests.storage"}
)
_STANDARD = _QUOTA | {"storage"}
_POD_LEVEL = {"cpu", "memory"}

NameRule = Callable[[str, str], Iterator[FieldError]]


def is_huge_page(name: str) -> bool:
    return name.startswith(HUGE_PAGES)


def is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_extended(name: str) -> bool:
    """Counted by a device plugin, in whole numbers: nvidia.com/gpu."""
    if is_native(name) or name.startswith(REQUESTS):
        return False
    return not names.label_key(REQUESTS + name)


def is_overcommit_allowed(name: str) -> bool:
    return is_native(name) and not is_huge_page(name)


def is_integer(name: str) -> bool:
    return name in _COUNTED or is_extended(name)


def is_standard_quota(name: str) -> bool:
    return name in _QUOTA or name.removeprefix(REQUESTS).startswith(HUGE_PAGES)


def resource_name(name: str, path: str) -> Iterator[FieldError]:
    """validateResourceName."""
    wrong = names.label_key(name)
    for text in wrong:
        yield field.invalid(path, name, text)
    if not wrong and "/" not in name and name not in _STANDARD and not is_standard_quota(name):
        yield field.invalid(path, name, "must be a standard resource type or fully qualified")


def container_resource_name(name: str, path: str) -> Iterator[FieldError]:
    yield from resource_name(name, path)
    if "/" not in name:
        if name not in _CONTAINER and not is_huge_page(name):
            yield field.invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield field.invalid(path, name, "doesn't follow extended resource name standard")


def quota_resource_name(name: str, path: str) -> Iterator[FieldError]:
    yield from resource_name(name, path)
    if "/" not in name and not is_standard_quota(name):
        yield field.invalid(path, name, "must be a standard resource for quota")


def pod_level_resource_name(name: str, path: str) -> Iterator[FieldError]:
    wrong = list(resource_name(name, path))
    yield from wrong
    if not wrong and name not in _POD_LEVEL and not is_huge_page(name):
        yield field.not_supported(path, name, ("cpu", HUGE_PAGES, "memory"))


def resource_amount(name: str, amount: Quantity, path: str) -> Iterator[FieldError]:
    """ValidateResourceQuantityValue."""
    if amount < ZERO:
        yield field.invalid(path, str(amount), NOT_NEGATIVE)
    if is_integer(name) and not amount.is_integer:
        yield field.invalid(path, str(amount), NOT_INTEGER)


def resource_requirements(
    resources: dict[str, Any], path: str, claims: Iterable[str] = (), name_rule: NameRule = container_resource_name
) -> Iterator[FieldError]:
    """validateResourceRequirements."""
    limits, requests = parse_list(resources.get("limits")), parse_list(resources.get("requests"))
    for name, limit in limits.items():
        yield from _resource(name, limit, f"{path}.limits[{name}]", name_rule)
    for name, request in requests.items():
        yield from _resource(name, request, f"{path}.requests[{name}]", name_rule)
        if name not in limits:
            if not is_overcommit_allowed(name):
                yield field.required(f"{path}.limits", "Limit must be set for non overcommitable resources")
            continue
        limit = limits[name]
        if request != limit and not is_overcommit_allowed(name):
            yield field.invalid(f"{path}.requests", str(request), f"must be equal to {name} limit of {limit}")
        elif request > limit:
            text = f"must be less than or equal to {name} limit of {limit}"
            yield field.invalid(f"{path}.requests", str(request), text)
    every = {*limits, *requests}
    if any(map(is_huge_page, every)) and not every & {"cpu", "memory"}:
        yield field.forbidden(path, "HugePages require cpu or memory")
    yield from _claims(resources.get("claims") or [], f"{path}.claims", set(claims))


def _resource(name: str, amount: Quantity, path: str, name_rule: NameRule) -> Iterator[FieldError]:
    yield from name_rule(name, path)
    yield from resource_amount(name, amount, path)
    if is_huge_page(name) and not _is_multiple(name, amount):
        yield field.invalid(path, str(amount), f"{amount} is not positive integer multiple of {name}")


def _is_multiple(name: str, amount: Quantity) -> bool:
    try:
        page = Quantity.parse(name.removeprefix(HUGE_PAGES))
    except ValueError:
        return False
    return page > ZERO and amount.amount % page.amount == 0


def _claims(claims: list[dict[str, Any]], path: str, known: set[str]) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        here, name = f"{path}[{index}]", claim.get("name", "")
        if not name:
            yield field.required(here)
            continue
        if name in seen:
            yield field.duplicate(here, name)
        seen.add(name)
        if name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            yield field.not_found(here, name, f"must be one of the names in pod.spec.resourceClaims{listed}")
