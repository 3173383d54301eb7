# SPDX-License-Identifier: BSD-2-Clause
"""What breaks the rules of a policy: for the API server in CEL, and for the modules in Python. Pure.

The rule is the expression: it judges all pods, whatever creates them. In Python is what jobs can break that manifests
describe, so that it is said before anything is sent, with the same sentence (tests/unit compares the values found).
CEL as Kubernetes has it since 1.30: docs, "Common Expression Language in Kubernetes". Expressions get the variables of
``VARIABLES``, and ``own``, which is true where the rule limits the namespace; ``allowed`` is then what it allows there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..accelerators.catalog import catalog, names_registry
from ..accelerators.device_selectors import cel_literal
from ..kube.resources import Object
from ..labels import DEFAULT_POOL, GPU_TYPE, GPU_TYPE_INTERNAL, POOL, priority_class_name
from ..manifest.host_paths import NOT_SYSTEM_PATHS, SYSTEM_PATHS, SYSTEM_SOCKETS, HostPaths
from ..manifest.problems import enumerated
from ..quantity import parse
from .policy_rules import NamespaceRules, PolicyRules

Values = Iterator[str]

VALUE = "\0"  # the place of the value in a sentence: nothing else that a sentence has can contain it
ALL_POOLS, ALL_TYPES = "all pools", "all GPU types"
# Devices of a DeviceClass as an extended resource (KEP-5004).
CLASS_RESOURCE = "deviceclass.resource.kubernetes.io/"
# A claim of several devices says so at the end of its name, such as gpus-x8. Pods and templates only name their claims.
_COUNT_IN_NAME = re.compile("-x([0-9]{1,4})$")
DEVICES_OF_CLAIM = "n.matches('-x[0-9]{1,4}$') ? int(n.substring(n.lastIndexOf('-x') + 2)) : 1"
# The Pod Security level baseline, and locked memory, which RDMA needs.
_CAPABILITIES = (
    *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "IPC_LOCK", "KILL", "MKNOD", "NET_BIND_SERVICE"),
    *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
)
# What a kubelet connects to, by the fields of containers.
_PROBES = tuple(
    f"{handler}.{action}"
    for handler in ("livenessProbe", "readinessProbe", "startupProbe", "lifecycle.postStart", "lifecycle.preStop")
    for action in ("httpGet", "tcpSocket")
)


@dataclass(frozen=True)
class Guard:
    """One rule. ``place`` is where a manifest says what it is about; ``cel`` and ``found`` are what breaks it. What no
    manifest can ask for has neither place nor ``found``: only the API server looks for it.

    ``rule`` is what limits a namespace, None where the rule does not. ``sentence`` has VALUE for the value. ``cel`` is
    a list of texts.
    """

    name: str
    place: str
    rule: Callable[[PolicyRules, NamespaceRules], Any]
    found: Callable[[Any, Pod], Iterable[str]] | None
    cel: str
    sentence: Callable[[PolicyRules, NamespaceRules], str]


class Pod:
    """A pod, or a template and how many pods are made from it."""

    def __init__(self, spec: Object, count: int = 1) -> None:
        self.spec = spec
        self.count = count

    @property
    def containers(self) -> list[Object]:
        return [
            container
            for name in ("containers", "initContainers", "ephemeralContainers")
            for container in self.spec.get(name) or ()
        ]

    @cached_property
    def requested(self) -> list[tuple[str, int]]:
        """The whole accelerators and partitions that containers ask for, by their resources."""
        whole, partition = whole_resources(), re.compile(partition_pattern())
        return [
            (resource, int(parse(str(amount)).value))
            for container in self.containers
            for resource, amount in ((container.get("resources") or {}).get("limits") or {}).items()
            if resource in whole or resource.startswith(CLASS_RESOURCE) or partition.fullmatch(resource)
        ]

    @property
    def devices(self) -> int:
        """How many these are, one for one."""
        return sum(amount for _resource, amount in self.requested)

    @cached_property
    def total(self) -> int:
        """The same with the devices of its claims, for all of its pods."""
        claims = self.spec.get("resourceClaims") or ()
        own = sum(devices_of_claim(each.get("resourceClaimTemplateName")) for each in claims)
        return (self.devices + own) * self.count + sum(
            devices_of_claim(each.get("resourceClaimName")) for each in claims
        )

    @cached_property
    def asks(self) -> bool:
        """Whether it asks for accelerators in any way."""
        shared = shared_resources()
        limits = ((container.get("resources") or {}).get("limits") or {} for container in self.containers)
        return bool(
            self.devices
            or self.spec.get("resourceClaims")
            or any(resource in shared for each in limits for resource in each)
        )

    @cached_property
    def pool(self) -> str:
        """The pool whose nodes it is bound to; "" for all."""
        return (self.spec.get("nodeSelector") or {}).get(POOL) or (DEFAULT_POOL if self._outside_of_pools else "")

    @property
    def _outside_of_pools(self) -> bool:
        affinity = (self.spec.get("affinity") or {}).get("nodeAffinity") or {}
        required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
        terms = required.get("nodeSelectorTerms") or []
        return bool(terms) and all(
            any(
                expression["key"] == POOL and expression["operator"] == "DoesNotExist"
                for expression in term.get("matchExpressions") or ()
            )
            for term in terms
        )

    @property
    def types(self) -> list[str]:
        """The GPU types that it is bound to, by the labels of nodes that have them."""
        selector = self.spec.get("nodeSelector") or {}
        return [selector[label] for label in type_labels() if label in selector]

    @property
    def images(self) -> list[str]:
        references = [container["image"] for container in self.containers]
        references += [
            volume["image"]["reference"]
            for volume in self.spec.get("volumes") or ()
            if (volume.get("image") or {}).get("reference")
        ]
        return [full_image(reference) for reference in references]

    @property
    def host_paths(self) -> list[str]:
        return [volume["hostPath"]["path"] for volume in self.spec.get("volumes") or () if volume.get("hostPath")]


def devices_of_claim(name: str | None) -> int:
    """How many devices a claim or its template may have, by its name."""
    found = _COUNT_IN_NAME.search(name or "")
    return int(found[1]) if found else int(bool(name))


def pod_of(workload: Object) -> Pod:
    """The pods of a workload."""
    spec = workload["spec"]
    count = spec.get("parallelism" if workload["kind"] == "Job" else "replicas", 1)
    return Pod(spec["template"]["spec"], count)


# -- texts ------------------------------------------------------------------------------------------------------------


def _advice(noun: str, names: Sequence[str]) -> str:
    return f"Use {noun}{enumerated(names, 'or')}." if names else "None is allowed."


def full_image(reference: str) -> str:
    """The reference with its registry (distribution/reference, ParseDockerRef)."""
    if names_registry(reference):
        return reference
    return f"docker.io/{reference}" if "/" in reference else f"docker.io/library/{reference}"


def is_below(image: str, registry: str) -> bool:
    """Whether a full reference points into a registry, or into a repository of it."""
    rest = image.removeprefix(registry)
    return rest != image and (rest.startswith("/") or ("/" in registry and rest[:1] in ("", ":", "@")))


# -- accelerators -----------------------------------------------------------------------------------------------------


def whole_resources() -> list[str]:
    """The extended resources that count one for one: whole devices, and time-sliced ones."""
    profiles = catalog().profiles.values()
    return sorted({row.resource for each in profiles for row in (each.device, each.slices) if row})


def shared_resources() -> list[str]:
    """The extended resources of shares."""
    profiles = catalog().profiles.values()
    found = {row.resource for each in profiles for backend in each.backends.values() for row in backend.resources}
    return sorted(found - set(whole_resources()))


def partition_pattern() -> str:
    """A pattern of RE2 and of Python for the resources of partitions."""
    blocks = [each.part("partitions") for each in catalog().profiles.values()]
    patterns = {_literal(block["resource"]).replace(r"\{partition\}", "[-A-Za-z0-9_.]+") for block in blocks if block}
    return f"^({'|'.join(sorted(patterns))})$" if patterns else "^$"


def _literal(text: str) -> str:
    return re.sub(r"([.{}+])", r"\\\1", text)


def type_labels() -> list[str]:
    """The labels of nodes with the type of their accelerators."""
    return sorted({GPU_TYPE, GPU_TYPE_INTERNAL, *catalog().product_labels})


# -- CEL --------------------------------------------------------------------------------------------------------------


def text(value: Any) -> str:
    """A value as a literal of CEL: texts, numbers, and lists and maps of them."""
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{text(key)}: {text(each)}' for key, each in value.items())}}}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(text, value))}]"
    return cel_literal(value)


def variables() -> dict[str, str]:
    """The variables of the guards, each of which may use those before it. They start from ``spec``, that of the pod."""
    extended = "c.resources.limits.filter(r, {condition})"
    limited = "variables.containers.filter(c, has(c.resources) && has(c.resources.limits))"
    counted = extended.format(
        condition=f"r in {text(whole_resources())} || r.startsWith({text(CLASS_RESOURCE)}) || "
        f"r.matches({text(partition_pattern())})"
    )
    named = "variables.claims.filter(r, has(r.{field}) && r.{field} != '').map(r, r.{field}).map(n, {number}).sum()"
    labels = text(type_labels())
    terms = "variables.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
    outside = (
        f"has(variables.spec.affinity) && has(variables.spec.affinity.nodeAffinity) && "
        f"has({terms.rpartition('.')[0]}) && size({terms}) > 0 && {terms}.all(t, has(t.matchExpressions) && "
        f"t.matchExpressions.exists(e, e.key == {text(POOL)} && e.operator == 'DoesNotExist'))"
    )
    return {
        "containers": "variables.spec.containers"
        " + (has(variables.spec.initContainers) ? variables.spec.initContainers : [])"
        " + (has(variables.spec.ephemeralContainers) ? variables.spec.ephemeralContainers : [])",
        "contexts": "variables.containers.filter(c, has(c.securityContext)).map(c, c.securityContext)",
        "volumes": "has(variables.spec.volumes) ? variables.spec.volumes : []",
        "selector": "has(variables.spec.nodeSelector) ? variables.spec.nodeSelector : {}",
        "resources": f"{limited}.map(c, {counted})",
        "devices": f"{limited}.map(c, {counted}.map(r, quantity(c.resources.limits[r]).asInteger()).sum()).sum()",
        "claims": "has(variables.spec.resourceClaims) ? variables.spec.resourceClaims : []",
        "total": f"(variables.devices + {named.format(field='resourceClaimTemplateName', number=DEVICES_OF_CLAIM)}) * "
        f"variables.count + {named.format(field='resourceClaimName', number=DEVICES_OF_CLAIM)}",
        "asks": "variables.devices > 0 || size(variables.claims) > 0"
        f" || {limited}.exists(c, c.resources.limits.exists(r, r in {text(shared_resources())}))",
        "pool": f"{text(POOL)} in variables.selector ? variables.selector[{text(POOL)}] : "
        f"{outside} ? {text(DEFAULT_POOL)} : ''",
        "types": f"{labels}.filter(l, l in variables.selector).map(l, variables.selector[l])",
        "references": "variables.containers.map(c, c.image) + variables.volumes.filter(v, has(v.image)"
        " && has(v.image.reference)).map(v, v.image.reference)",
        "images": r"variables.references.map(i, i.matches('^([^/]*[.:][^/]*|localhost)/') ? i : "
        "i.contains('/') ? 'docker.io/' + i : 'docker.io/library/' + i)",
        "paths": "variables.volumes.filter(v, has(v.hostPath)).map(v, v.hostPath.path)",
    }


# -- the guards -------------------------------------------------------------------------------------------------------


def _pools(allowed: Sequence[str], pod: Pod) -> Values:
    if pod.pool not in allowed and (pod.asks or pod.pool not in ("", DEFAULT_POOL)):
        yield f"pool {pod.pool}" if pod.pool else ALL_POOLS


def _types(allowed: Sequence[str], pod: Pod) -> Values:
    if pod.asks:
        yield from (f"GPU type {each}" for each in pod.types if each not in allowed)
        if not pod.types:
            yield ALL_TYPES


_NO_CLASS = "0 (no priorityClassName)"


def _priorities(allowed: Sequence[str], pod: Pod) -> Values:
    name = pod.spec.get("priorityClassName", "")
    if name and name not in map(priority_class_name, allowed):
        yield name.removeprefix("gpuctl-")
    if not name and pod.asks:  # It has priority 0, below gpuctl-low, or that of a class that is the default.
        yield _NO_CLASS


def _too_many(most: int, pod: Pod) -> Values:
    if pod.total > most:
        yield str(pod.total)


def _uncounted(counted: Sequence[str], pod: Pod) -> Values:
    # A ResourceQuota names each extended resource; no key of it stands for all.
    yield from (resource for resource, _amount in pod.requested if resource not in counted)


def _paths(policy: PolicyRules, pod: Pod) -> Values:
    rules = HostPaths(policy.name, policy.roots)
    yield from (path for path in pod.host_paths if rules.refusal(path) or not _is_canonical_path(path, policy.roots))


def _is_canonical_path(path: str, roots: Sequence[str] | None) -> bool:
    """Whether a path says where it leads; the API server itself refuses ``..`` in paths of nodes."""
    if not path.isascii() or not path.isprintable():
        return False
    # The kubelet resolves what the expression compares as text: // and /./ would hide the directory.
    return roots is not None or re.search(r"//|/\.(/|$)", path) is None


_SYSTEM_CEL = (
    "{q}.exists(s, (s + '/').startsWith(p.endsWith('/') ? p : p + '/') || (p + '/').startsWith(s + '/'))"
    " && !{e}.exists(s, (p + '/').startsWith(s + '/'))"
)


def _images(registries: Sequence[str], pod: Pod) -> Values:
    yield from (image for image in pod.images if not any(is_below(image, each) for each in registries))


def _probe_cel() -> str:
    """Whether a container has a probe of another host."""
    tests = []
    for probe in _PROBES:
        parts = ["c", *probe.split("."), "host"]
        fields = [".".join(parts[: number + 1]) for number in range(1, len(parts))]
        tests.append(f"({' && '.join(f'has({each})' for each in fields)} && {fields[-1]} != '')")
    return f"variables.containers.exists(c, {' || '.join(tests)})"


def _accounts(allowed: Sequence[str], pod: Pod) -> Values:
    account = pod.spec.get("serviceAccountName") or "default"
    if account not in allowed:
        yield account


def _secrets(allowed: Sequence[str], pod: Pod) -> Values:
    yield from (each["name"] for each in pod.spec.get("imagePullSecrets") or () if each["name"] not in allowed)


def _path_sentence(policy: PolicyRules, _rules: NamespaceRules) -> str:
    if policy.roots is None:
        return f"system path of the node: {VALUE}. Mount a directory with data, or a claim."
    below = f"Use a path below {enumerated(policy.roots, 'or')}, or a claim." if policy.roots else "Use a claim."
    return f"path of the node that is not allowed: {VALUE}. {below}"


def _path_cel(policy: PolicyRules) -> str:
    control = "!p.matches('^[ -~]*$')"
    if policy.roots is not None:
        roots = text([root.rstrip("/") for root in policy.roots])
        below = f"{roots}.exists(r, p == r || p.startsWith(r + '/'))"
        return f"variables.paths.filter(p, {control} || !{below})"
    around = _SYSTEM_CEL.format(q=text(SYSTEM_PATHS), e=text(NOT_SYSTEM_PATHS))
    sockets = f"{text([f'/{name}' for name in sorted(SYSTEM_SOCKETS)])}.exists(s, p.endsWith(s))"
    return (
        f"variables.paths.filter(p, {control} || p.contains('//') || p.matches('/[.](/|$)') || ({around}) || {sockets})"
    )


GUARDS: tuple[Guard, ...] = (
    Guard(
        "pools",
        "resources.pool",
        lambda policy, rules: rules.pools,
        _pools,
        f"!(variables.pool in allowed) && (variables.asks || !(variables.pool in ['', {text(DEFAULT_POOL)}])) ? "
        f"[variables.pool == '' ? {text(ALL_POOLS)} : 'pool ' + variables.pool] : []",
        lambda policy, rules: f"team {rules.team} may not use {VALUE}. {_advice('pool ', rules.pools or ())}",
    ),
    Guard(
        "gpu_types",
        "resources.gpu-type",
        lambda policy, rules: rules.gpu_types,
        _types,
        f"!variables.asks ? [] : size(variables.types) == 0 ? [{text(ALL_TYPES)}] : "
        "variables.types.filter(t, !(t in allowed)).map(t, 'GPU type ' + t)",
        lambda policy, rules: f"team {rules.team} may not use {VALUE}. {_advice('GPU type ', rules.gpu_types or ())}",
    ),
    Guard(
        "priorities",
        "job.priority",
        lambda policy, rules: rules.priorities,
        _priorities,
        "!has(variables.spec.priorityClassName) || variables.spec.priorityClassName == '' ? "
        f"(variables.asks ? [{text(_NO_CLASS)}] : []) : "
        "allowed.exists(p, 'gpuctl-' + p == variables.spec.priorityClassName) ? [] : "
        "[variables.spec.priorityClassName.replace('gpuctl-', '')]",
        lambda policy, rules: f"team {rules.team} may not use priority {VALUE}. {_advice('', rules.priorities or ())}",
    ),
    Guard(
        "max_gpus_per_job",
        "resources.gpu",
        lambda policy, rules: rules.max_gpus_per_job,
        _too_many,
        "variables.total > allowed ? [string(variables.total)] : []",
        lambda policy, rules: (
            f"{VALUE} GPUs in a job, more than team {rules.team} may use. Use at most {rules.max_gpus_per_job}."
        ),
    ),
    Guard(
        "counted",
        "resources.gpu",
        lambda policy, rules: policy.counted if rules.is_limited else None,
        _uncounted,
        "variables.resources.filter(l, l.exists(r, !(r in allowed))).map(l, l.filter(r, !(r in allowed))[0])",
        lambda policy, rules: (
            f"accelerators that the quota of team {rules.team} does not count: {VALUE}. If they are new, the policy "
            f"has to be applied again."
        ),
    ),
    Guard(
        "service_accounts",
        "environment.service_account",
        lambda policy, rules: rules.service_accounts,
        _accounts,
        "[has(variables.spec.serviceAccountName) && variables.spec.serviceAccountName != '' ? "
        "variables.spec.serviceAccountName : 'default'].filter(a, !(a in allowed))",
        lambda policy, rules: (
            f"team {rules.team} may not use service account {VALUE}. {_advice('', rules.service_accounts or ())}"
        ),
    ),
    Guard(
        "image_pull_secrets",
        "environment.imagePullSecret",
        lambda policy, rules: rules.image_pull_secrets,
        _secrets,
        "has(variables.spec.imagePullSecrets) ? variables.spec.imagePullSecrets.map(s, has(s.name) ? s.name : '')"
        ".filter(s, !(s in allowed)) : []",
        lambda policy, rules: (
            f"team {rules.team} may not use pull secret {VALUE}. {_advice('', rules.image_pull_secrets or ())}"
        ),
    ),
)


COUNTED = next(guard for guard in GUARDS if guard.name == "counted")


def general_guards(policy: PolicyRules) -> Iterator[Guard]:
    """The guards that a policy has for all of its namespaces."""
    yield Guard(
        "host_paths",
        "storage.workdirs",
        lambda policy, rules: policy,
        _paths,
        _path_cel(policy),
        _path_sentence,
    )
    if policy.registries is not None:
        registries = text(policy.registries)
        yield Guard(
            "images",
            "environment.image",
            lambda policy, rules: policy.registries,
            _images,
            f"variables.images.filter(i, !{registries}.exists(r, i.startsWith(r + '/') || (r.contains('/') && "
            "(i == r || i.startsWith(r + ':') || i.startsWith(r + '@')))))",
            lambda policy, rules: f"image that is not allowed: {VALUE}. {_advice('', policy.registries or ())}",
        )
    if not policy.host_network:
        yield Guard(
            "host_network",
            "",
            lambda policy, rules: True,
            None,
            "(has(variables.spec.hostNetwork) && variables.spec.hostNetwork ? ['hostNetwork'] : []) + "
            "(has(variables.spec.hostPID) && variables.spec.hostPID ? ['hostPID'] : []) + "
            "(has(variables.spec.hostIPC) && variables.spec.hostIPC ? ['hostIPC'] : []) + "
            "(variables.containers.exists(c, has(c.ports) && c.ports.exists(p, has(p.hostPort) && p.hostPort > 0)) ? "
            f"['hostPort'] : []) + ({_probe_cel()} ? ['the host of probes'] : [])",
            lambda policy, rules: f"pods may not use {VALUE} of the node. Remove it.",
        )
    if not policy.privileged:
        options = "{0}.windowsOptions) && has({0}.windowsOptions.hostProcess) && {0}.windowsOptions.hostProcess"
        yield Guard(
            "privileges",
            "",
            lambda policy, rules: True,
            None,
            "(variables.contexts.exists(s, has(s.privileged) && s.privileged) ? ['privileged containers'] : []) + "
            "(variables.contexts.exists(s, has(s.procMount) && s.procMount != 'Default') ? ['procMount'] : []) + "
            "(variables.contexts.exists(s, has(s.capabilities) && has(s.capabilities.add) && "
            f"s.capabilities.add.exists(a, !(a in {text(_CAPABILITIES)}))) ? "
            "['capabilities beyond those of the Pod Security level baseline'] : []) + "
            f"(variables.contexts.exists(s, has({options.format('s')}) || (has(variables.spec.securityContext) && "
            f"has({options.format('variables.spec.securityContext')}) ? ['hostProcess'] : [])",
            lambda policy, rules: f"pods may not use {VALUE}. Remove it.",
        )


def broken_rules(policy: PolicyRules, namespace: str, objects: Sequence[Object]) -> Iterator[tuple[str, str]]:
    """What a policy does not allow in the objects of a job, the workload first: the place in the manifest, and why."""
    rules = policy.namespaces.get(namespace)
    if rules is None:
        return
    pod = pod_of(objects[0])
    for guard in (*GUARDS, *general_guards(policy)):
        allowed = guard.rule(policy, rules)
        found = guard.found(allowed, pod) if guard.found and allowed is not None else ()
        for value in dict.fromkeys(found):
            yield guard.place, f"{policy.source}: {guard.sentence(policy, rules).replace(VALUE, value)}"
    for obj in objects[1:]:
        type_ = obj["spec"].get("type", "ClusterIP") if obj["kind"] == "Service" else None
        if type_ and rules.service_types is not None and type_ not in rules.service_types:
            yield "service", f"{policy.source}: {service_sentence(rules).replace(VALUE, type_)}"


def service_sentence(rules: NamespaceRules) -> str:
    return f"type of Service that is not allowed: {VALUE}. {_advice('', rules.service_types or ())}"
