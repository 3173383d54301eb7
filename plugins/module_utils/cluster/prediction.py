# SPDX-License-Identifier: BSD-2-Clause
"""Why the pods of a workload that does not run yet never will, in the words of the reason that it would have. Pure.

Only what time alone does not mend: a pool without nodes counts, nodes that are busy do not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from ..kube.resources import CONFIG_MAP, PERSISTENT_VOLUME_CLAIM, SECRET, SERVICE_ACCOUNT, Object, Resource
from .pending_reason import PendingReason
from .reason import missing_claim
from .shortage import Shortages
from .start_failure import config_hint, pull_secret_hint, refusal_hint, volume_hint


def unschedulable(workload: Object, shortages: Shortages) -> Iterator[PendingReason]:
    """Why no node will ever take its pods. The shortages are those of the whole cluster, without usage of its nodes."""
    shortage = shortages.of(_pod_of(workload))
    if shortage is not None and (shortage.lasting or shortage.needs_user):
        text = f"pods cannot be scheduled: {shortage.text}"
        yield PendingReason(text, shortage.hint, refused=shortage.refused, unknown=shortage.unknown, predicted=True)


def missing(workload: Object, resource: Resource, present: Collection[str]) -> Iterator[PendingReason]:
    """What its pods refer to and its namespace lacks; ``present`` are the names of all objects of the kind there."""
    pod = _pod_of(workload)
    for name in sorted(needed_names(workload)[resource] - set(present)):
        yield _missing_object(resource, name, pod)


def needed_names(workload: Object) -> Mapping[Resource, set[str]]:
    """The objects of its namespace that its pods do not start without, by kind."""
    found: dict[Resource, set[str]] = defaultdict(set)
    for resource, name in _referenced_objects(workload["spec"]["template"]["spec"]):
        if name:
            found[resource].add(name)
    return found


def _referenced_objects(spec: Object) -> Iterator[tuple[Resource, str]]:
    yield SERVICE_ACCOUNT, spec.get("serviceAccountName") or ""
    for secret in spec.get("imagePullSecrets") or ():
        yield SECRET, secret["name"]
    for volume in spec.get("volumes") or ():
        yield PERSISTENT_VOLUME_CLAIM, (volume.get("persistentVolumeClaim") or {}).get("claimName") or ""
        sources = (volume, *((volume.get("projected") or {}).get("sources") or ()))
        yield from _required_objects((source.get("secret") for source in sources), SECRET)
        yield from _required_objects((source.get("configMap") for source in sources), CONFIG_MAP)
    for container in (*(spec.get("initContainers") or ()), *spec["containers"]):
        variables = [variable.get("valueFrom") or {} for variable in container.get("env") or ()]
        yield from _required_objects((source.get("secretKeyRef") for source in variables), SECRET)
        yield from _required_objects((source.get("configMapKeyRef") for source in variables), CONFIG_MAP)


def _required_objects(sources: Iterable[Object | None], resource: Resource) -> Iterator[tuple[Resource, str]]:
    for source in sources:
        if source and not source.get("optional"):
            yield resource, source.get("name") or source.get("secretName") or ""


def _pod_of(workload: Object) -> dict[str, Any]:
    template = workload["spec"]["template"]
    metadata = {**(template.get("metadata") or {}), "namespace": workload["metadata"]["namespace"]}
    return {"metadata": metadata, "spec": template["spec"]}


def _missing_object(resource: Resource, name: str, pod: Object) -> PendingReason:
    """The reason for a missing object. Hints parse messages of kubelets and controllers: it builds such a one."""
    namespace, spec = pod["metadata"]["namespace"], pod["spec"]
    if resource == PERSISTENT_VOLUME_CLAIM:
        return missing_claim("pods", name, namespace)
    message = f'{resource.kind.lower()} "{name}" not found'
    if resource == SERVICE_ACCOUNT:
        return PendingReason(f"pods cannot be created: {message}", refusal_hint(message, namespace).text)
    if resource == SECRET and {"name": name} in (spec.get("imagePullSecrets") or ()):
        hint = pull_secret_hint([f"Unable to retrieve some image pull secrets ({name})"], namespace)
        return PendingReason("images of a private registry cannot be pulled", hint)
    mounted = {(volume.get("secret") or {}).get("secretName") for volume in spec.get("volumes") or ()}
    if name in mounted:
        return PendingReason(f"pods cannot mount a volume: {message}", volume_hint(message, pod).text)
    return PendingReason(f"containers cannot start: {message}", config_hint(message, pod).text)
