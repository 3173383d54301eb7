# SPDX-License-Identifier: BSD-2-Clause
"""The steps of a write that differ by kind: defaulting, preparation, validation, warnings.

The registry calls, in Kubernetes' order: default (part of decoding) -> mutating admission -> prepare_* ->
validate* -> validating admission -> store. Sources: staging/src/k8s.io/apiserver/pkg/registry/rest/{create,update}.go.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kubesim.field import FieldError
from kubesim.kinds import names
from kubesim.kinds.metadata import object_meta, object_meta_update

Object = dict[str, Any]


@dataclass(frozen=True)
class Context:
    """What preparation may need to know beside the object."""

    registry: Any
    clock: Any
    dry_run: bool = False
    user: Any = None


class Strategy:
    """A kind without rules of its own: only metadata is checked. Kinds override what differs."""

    kind: str
    namespaced = True
    name_rule: names.Rule = staticmethod(names.dns_subdomain)
    #: The part of the object whose change bumps metadata.generation; "" for kinds without a generation.
    generation_of = ""
    #: Whether status is kept on a write of the object itself and is what a write of /status changes.
    has_status = False
    delete_default_propagation = "Background"
    graceful_deletion = False
    #: Whether a PUT without a resourceVersion replaces whatever is there.
    allows_unconditional_update = True

    def prepare_create(self, obj: Object, ctx: Context) -> None:
        if self.generation_of:
            obj["metadata"]["generation"] = 1
        if self.has_status:
            self.reset_status(obj)

    def prepare_update(self, obj: Object, old: Object, ctx: Context) -> None:
        if self.has_status:
            _keep(obj, old, "status")
        if self.generation_of:
            generation = old["metadata"].get("generation", 1)
            changed = self.generation_changes(obj, old)
            obj["metadata"]["generation"] = generation + 1 if changed else generation

    def prepare_status_update(self, obj: Object, old: Object, ctx: Context) -> None:
        for key in set(obj) | set(old):
            if key not in ("apiVersion", "kind", "metadata", "status"):
                _keep(obj, old, key)
        for key in ("generation", "deletionTimestamp", "deletionGracePeriodSeconds"):
            _keep(obj["metadata"], old["metadata"], key)

    def reset_status(self, obj: Object) -> None:
        obj["status"] = {}

    def generation_changes(self, obj: Object, old: Object) -> bool:
        return obj.get(self.generation_of) != old.get(self.generation_of)

    def default(self, obj: Object) -> None:
        """Fill in, in place, what API defaulting and Go's encoding of zero values would."""

    def complete(self, obj: Object) -> None:
        """Add what Kubernetes' defaulting adds when it decodes the new object from storage."""

    def validate(self, obj: Object) -> list[FieldError]:
        return [
            *object_meta(obj.get("metadata", {}), "metadata", self.name_rule, self.namespaced),
            *self.validate_spec(obj),
        ]

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return [*self._common_update(obj, old), *self.validate_changes(obj, old)]

    def validate_status_update(self, obj: Object, old: Object) -> list[FieldError]:
        return [*self._common_update(obj, old), *self.validate_status(obj, old)]

    def validate_spec(self, obj: Object) -> Iterator[FieldError]:
        """Everything but metadata, on create and update."""
        yield from ()

    def validate_changes(self, obj: Object, old: Object) -> Iterator[FieldError]:
        """What the kind's own Validate...Update says; most repeat the checks of metadata."""
        yield from object_meta_update(obj["metadata"], old["metadata"], "metadata")
        yield from self.validate_spec(obj)

    def validate_status(self, obj: Object, old: Object) -> Iterator[FieldError]:
        yield from object_meta_update(obj["metadata"], old["metadata"], "metadata")

    def warnings(self, obj: Object, old: Object | None) -> list[str]:
        """Texts of Warning headers."""
        return []

    def on_delete(self, obj: Object, ctx: Context) -> None:
        """Give back what the object holds."""

    def _common_update(self, obj: Object, old: Object) -> Iterator[FieldError]:
        """rest.validateCommonFields: for every kind, before its own rules; errors in metadata come up repeatedly."""
        yield from object_meta(obj["metadata"], "metadata", names.path_segment, self.namespaced)
        yield from object_meta_update(obj["metadata"], old["metadata"], "metadata")


def _keep(obj: Object, old: Object, key: str) -> None:
    if key in old:
        obj[key] = old[key]
    else:
        obj.pop(key, None)
