# SPDX-License-Identifier: BSD-2-Clause
"""Containers of a pod spec. Source: validateContainers and below, pkg/apis/core/validation/validation.go."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kubesim import field
from kubesim.field import FieldError
from kubesim.kinds import names
from kubesim.kinds.metadata import not_negative
from kubesim.kinds.resources import resource_requirements
from kubesim.kinds.volume_validation import descending_path, field_ref, resource_field_ref

Object = dict[str, Any]

PROTOCOLS = ("SCTP", "TCP", "UDP")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
MAX_RESTART_RULES, MAX_EXIT_CODES = 20, 255
_RESTART_ACTIONS = ("Restart", "RestartAllContainers")
_ENV_FIELD_PATHS = (
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
)
_ENV_SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_NOT_IN_INIT = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


@dataclass(frozen=True)
class PodContext:
    """What the rules of a container need to know of its pod."""

    volumes: dict[str, Object]
    grace_period: int | None
    restart_policy: str
    claims: tuple[str, ...]
    #: A pod, not a template: a little more is checked.
    is_pod: bool


def validate_containers(containers: list[Object], path: str, pod: PodContext) -> Iterator[FieldError]:
    if not containers:
        yield field.required(path)
        return
    seen: set[str] = set()
    for index, container in enumerate(containers):
        here = f"{path}[{index}]"
        yield from _common(container, here, pod)
        name = container.get("name", "")
        if name in seen:
            yield field.duplicate(f"{here}.name", name)
        seen.add(name)
        yield from _lifecycle_and_probes(container, here, pod)
        yield from _restart_policy(container, here)
    yield from _host_port_conflicts(containers, path)


def validate_init_containers(
    containers: list[Object], regular: list[Object], path: str, pod: PodContext
) -> Iterator[FieldError]:
    seen = {container.get("name", "") for container in regular}
    for index, container in enumerate(containers):
        here, name = f"{path}[{index}]", container.get("name", "")
        yield from _common(container, here, pod)
        yield from _restart_policy(container, here)
        if name in seen:
            yield field.duplicate(f"{here}.name", name)
        elif name:
            seen.add(name)
        yield from _host_port_conflicts([container], path)
        if container.get("restartPolicy") == "Always":
            yield from _lifecycle_and_probes(container, here, pod)
        else:
            for key in _NOT_IN_INIT:
                if key in container:
                    text = "may not be set for init containers without restartPolicy=Always"
                    yield field.forbidden(f"{here}.{key}", text)


def validate_image_whitespace(containers: list[Object], path: str) -> Iterator[FieldError]:
    """validateContainersOnlyForPod: templates tolerate it, pods do not."""
    for index, container in enumerate(containers):
        image = container.get("image", "")
        if image != image.strip():
            yield field.invalid(f"{path}[{index}].image", image, "must not have leading or trailing whitespace")


def _common(container: Object, path: str, pod: PodContext) -> Iterator[FieldError]:
    """validateContainerCommon."""
    if name := container.get("name"):
        for text in names.dns_label(name):
            yield field.invalid(f"{path}.name", name, text)
    else:
        yield field.required(f"{path}.name")
    if not container.get("image"):
        yield field.required(f"{path}.image")
    policy = container.get("terminationMessagePolicy", "")
    if policy not in ("File", "FallbackToLogsOnError"):
        yield field.not_supported(f"{path}.terminationMessagePolicy", policy, ("File", "FallbackToLogsOnError"))
    yield from _ports(container.get("ports") or [], f"{path}.ports")
    yield from _env(container.get("env") or [], f"{path}.env")
    yield from _env_from(container.get("envFrom") or [], f"{path}.envFrom")
    yield from _mounts(container, f"{path}.volumeMounts", pod)
    yield from _devices(container, f"{path}.volumeDevices", pod)
    pull_policy = container.get("imagePullPolicy", "")
    if pull_policy not in PULL_POLICIES:
        yield field.not_supported(f"{path}.imagePullPolicy", pull_policy, PULL_POLICIES)
    yield from resource_requirements(container.get("resources") or {}, f"{path}.resources", pod.claims)
    yield from _resize_policy(container.get("resizePolicy") or [], f"{path}.resizePolicy", pod)
    yield from _security_context(container.get("securityContext"), f"{path}.securityContext")


def _restart_policy(container: Object, path: str) -> Iterator[FieldError]:
    """validateContainerRestartPolicy, with ContainerRestartRules and RestartAllContainersOnContainerExits."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or []
    if policy is None:
        if rules:
            yield field.required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
        return
    if policy not in ("Always", "Never", "OnFailure"):
        yield field.not_supported(f"{path}.restartPolicy", policy, ("Always", "Never", "OnFailure"))
    if len(rules) > MAX_RESTART_RULES:
        yield field.too_many(f"{path}.restartPolicyRules", len(rules), MAX_RESTART_RULES)
    for index, rule in enumerate(rules):
        here, action, exit_codes = f"{path}.restartPolicyRules[{index}]", rule.get("action", ""), rule.get("exitCodes")
        if action not in _RESTART_ACTIONS:
            yield field.not_supported(f"{here}.action", action, _RESTART_ACTIONS)
        if exit_codes is None:
            yield field.required(f"{here}.exitCodes", "must be specified")
            continue
        operator, values = exit_codes.get("operator", ""), exit_codes.get("values") or []
        if operator not in ("In", "NotIn"):
            yield field.not_supported(f"{here}.exitCodes.operator", operator, ("In", "NotIn"))
        if len(values) > MAX_EXIT_CODES:
            yield field.too_many(f"{here}.exitCodes.values", len(values), MAX_EXIT_CODES)


def _ports(ports: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        here = f"{path}[{index}]"
        if name := port.get("name"):
            if wrong := names.port_name(name):
                for text in wrong:
                    yield field.invalid(f"{here}.name", name, text)
            elif name in seen:
                yield field.duplicate(f"{here}.name", name)
            else:
                seen.add(name)
        if not port.get("containerPort"):
            yield field.required(f"{here}.containerPort")
        for key in ("containerPort", "hostPort"):
            if number := port.get(key):
                for text in names.port_number(number):
                    yield field.invalid(f"{here}.{key}", number, text)
        protocol = port.get("protocol", "")
        if protocol not in PROTOCOLS:
            yield field.not_supported(f"{here}.protocol", protocol, PROTOCOLS)


def _env(variables: list[Object], path: str) -> Iterator[FieldError]:
    for index, variable in enumerate(variables):
        here, name = f"{path}[{index}]", variable.get("name", "")
        if not name:
            yield field.required(f"{here}.name")
        else:
            for text in names.env_name(name):
                yield field.invalid(f"{here}.name", name, text)
        if variable.get("valueFrom") is not None:
            yield from _value_from(variable, f"{here}.valueFrom")


def _value_from(variable: Object, path: str) -> Iterator[FieldError]:
    source = variable["valueFrom"]
    if "fieldRef" in source:
        yield from field_ref(source["fieldRef"], f"{path}.fieldRef", _ENV_FIELD_PATHS)
    if "resourceFieldRef" in source:
        yield from resource_field_ref(source["resourceFieldRef"], f"{path}.resourceFieldRef")
    for key in ("configMapKeyRef", "secretKeyRef"):
        if key in source:
            yield from _key_ref(source[key], f"{path}.{key}")
    given = [key for key in _ENV_SOURCES if key in source]
    if not given:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        yield field.invalid(path, "", text)
    elif variable.get("value"):
        yield field.invalid(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield field.invalid(path, "", "may not have more than one field specified at a time")


def _key_ref(ref: Object, path: str) -> Iterator[FieldError]:
    for text in names.dns_subdomain(ref.get("name", "")):
        yield field.invalid(f"{path}.name", ref.get("name", ""), text)
    if key := ref.get("key"):
        for text in names.config_key(key):
            yield field.invalid(f"{path}.key", key, text)
    else:
        yield field.required(f"{path}.key")


def _env_from(sources: list[Object], path: str) -> Iterator[FieldError]:
    for index, source in enumerate(sources):
        here = f"{path}[{index}]"
        if prefix := source.get("prefix"):
            for text in names.env_name(prefix):
                yield field.invalid(f"{here}.prefix", prefix, text)
        given = [key for key in ("configMapRef", "secretRef") if key in source]
        for key in given:
            if name := source[key].get("name"):
                for text in names.dns_subdomain(names.as_prefix(name)):
                    yield field.invalid(f"{here}.{key}.name", name, text)
            else:
                yield field.required(f"{here}.{key}.name")
        if not given:
            yield field.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield field.invalid(path, "", "may not have more than one field specified at a time")


def _mounts(container: Object, path: str, pod: PodContext) -> Iterator[FieldError]:
    """ValidateVolumeMounts; subPath and the like are reported under the list, not its entry, as Kubernetes does."""
    seen: set[str] = set()
    devices = {device.get("name"): device.get("devicePath") for device in container.get("volumeDevices") or ()}
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        here, name, target = f"{path}[{index}]", mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            yield field.required(f"{here}.name")
        if name not in pod.volumes:
            yield field.not_found(f"{here}.name", name)
        if not target:
            yield field.required(f"{here}.mountPath")
        if target in seen:
            yield field.invalid(f"{here}.mountPath", target, "must be unique")
        seen.add(target)
        if name in devices:
            yield field.invalid(f"{here}.name", name, "must not already exist in volumeDevices")
        if target in devices.values():
            yield field.invalid(f"{here}.mountPath", target, "must not already exist as a path in volumeDevices")
        for key in ("subPath", "subPathExpr"):
            if mount.get(key) and "image" in pod.volumes.get(name, {}):
                yield field.invalid(f"{here}.{key}", mount[key], "not allowed in image volume sources")
        if mount.get("subPath"):
            yield from descending_path(mount["subPath"], f"{path}.subPath")
        if mount.get("subPathExpr"):
            if mount.get("subPath"):
                text = "subPathExpr and subPath are mutually exclusive"
                yield field.invalid(f"{here}.subPathExpr", mount["subPathExpr"], text)
            yield from descending_path(mount["subPathExpr"], f"{path}.subPathExpr")
        yield from _propagation(mount, container, path)


def _propagation(mount: Object, container: Object, path: str) -> Iterator[FieldError]:
    propagation, recursive = mount.get("mountPropagation"), mount.get("recursiveReadOnly")
    if propagation is not None and propagation not in _PROPAGATIONS:
        yield field.not_supported(f"{path}.mountPropagation", propagation, _PROPAGATIONS)
    if propagation == "Bidirectional" and not (container.get("securityContext") or {}).get("privileged"):
        text = "Bidirectional mount propagation is available only to privileged containers"
        yield field.forbidden(f"{path}.mountPropagation", text)
    if recursive in ("Enabled", "IfPossible"):
        if not mount.get("readOnly"):
            yield field.forbidden(f"{path}.recursiveReadOnly", "may only be specified when readOnly is true")
        if propagation not in (None, "None"):
            text = "may only be specified when mountPropagation is None or not specified"
            yield field.forbidden(f"{path}.recursiveReadOnly", text)
    elif recursive not in (None, "Disabled"):
        yield field.not_supported(f"{path}.recursiveReadOnly", recursive, ("Disabled", "Enabled", "IfPossible"))


def _devices(container: Object, path: str, pod: PodContext) -> Iterator[FieldError]:
    for index, device in enumerate(container.get("volumeDevices") or ()):
        here, name = f"{path}[{index}]", device.get("name", "")
        if not name:
            yield field.required(f"{here}.name")
        volume = pod.volumes.get(name)
        if volume is None:
            yield field.not_found(f"{here}.name", name)
        elif not {"persistentVolumeClaim", "ephemeral"} & set(volume):
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield field.invalid(f"{here}.name", name, text)
        if not device.get("devicePath"):
            yield field.required(f"{here}.devicePath")


def _resize_policy(policies: list[Object], path: str, pod: PodContext) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, policy in enumerate(policies):
        resource, restart = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if resource in seen:
            yield field.duplicate(f"{path}[{index}]", resource)
        seen.add(resource)
        if resource not in ("cpu", "memory"):
            yield field.not_supported(path, resource, ("cpu", "memory")) if resource else field.required(path)
        if restart not in ("NotRequired", "RestartContainer"):
            yield (
                field.not_supported(path, restart, ("NotRequired", "RestartContainer"))
                if restart
                else field.required(path)
            )
        if pod.restart_policy == "Never" and restart != "NotRequired":
            yield field.invalid(path, restart, "must be 'NotRequired' when `restartPolicy` is 'Never'")


def _security_context(context: Object | None, path: str) -> Iterator[FieldError]:
    if context is None:
        return
    for key in ("runAsUser", "runAsGroup"):
        if key in context:
            for text in names.user_id(context[key]):
                yield field.invalid(f"{path}.{key}", context[key], text)
    if context.get("procMount", "Default") not in ("Default", "Unmasked"):
        yield field.not_supported(f"{path}.procMount", context["procMount"], ("Default", "Unmasked"))
    yield from seccomp_profile(context.get("seccompProfile"), f"{path}.seccompProfile")
    if context.get("allowPrivilegeEscalation") is False:
        if context.get("privileged"):
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield field.invalid(path, context, text)
        if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield field.invalid(path, context, text)


def seccomp_profile(profile: Object | None, path: str) -> Iterator[FieldError]:
    if profile is None:
        return
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        yield field.required(f"{path}.type", "type is required when seccompProfile is set")
    elif kind not in ("Localhost", "RuntimeDefault", "Unconfined"):
        yield field.not_supported(f"{path}.type", kind, ("Localhost", "RuntimeDefault", "Unconfined"))
    if kind == "Localhost":
        if local is None:
            yield field.required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
        else:
            yield from descending_path(local, f"{path}.localhostProfile")
    elif local is not None:
        yield field.invalid(f"{path}.localhostProfile", profile, "can only be set when seccomp type is Localhost")


def _lifecycle_and_probes(container: Object, path: str, pod: PodContext) -> Iterator[FieldError]:
    for hook in ("postStart", "preStop"):
        handler = (container.get("lifecycle") or {}).get(hook)
        if handler is not None:
            yield from _handler(handler, f"{path}.lifecycle.{hook}", pod, ("exec", "httpGet", "tcpSocket", "sleep"))
    for name in ("livenessProbe", "readinessProbe", "startupProbe"):
        if name in container:
            yield from _probe(container[name], f"{path}.{name}", pod)
            if name != "readinessProbe" and container[name].get("successThreshold", 0) != 1:
                yield field.invalid(
                    f"{path}.{name}.successThreshold", container[name].get("successThreshold", 0), "must be 1"
                )
            if name == "readinessProbe" and "terminationGracePeriodSeconds" in container[name]:
                seconds = container[name]["terminationGracePeriodSeconds"]
                here = f"{path}.{name}.terminationGracePeriodSeconds"
                yield field.invalid(here, seconds, "must not be set for readinessProbes")


def _probe(probe: Object, path: str, pod: PodContext) -> Iterator[FieldError]:
    yield from _handler(probe, path, pod, ("exec", "httpGet", "tcpSocket", "grpc"))
    for key in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
        yield from not_negative(probe, key, path)
    seconds = probe.get("terminationGracePeriodSeconds")
    if seconds is not None and seconds <= 0:
        yield field.invalid(f"{path}.terminationGracePeriodSeconds", seconds, "must be greater than 0")


def _handler(handler: Object, path: str, pod: PodContext, kinds: tuple[str, ...]) -> Iterator[FieldError]:
    given = [kind for kind in kinds if handler.get(kind) is not None]
    if not given:
        yield field.required(path, "must specify a handler type")
        return
    yield from _action(given[0], handler[given[0]], f"{path}.{given[0]}", pod)
    for kind in given[1:]:
        yield field.forbidden(f"{path}.{kind}", "may not specify more than 1 handler type")


def _action(kind: str, action: Object, path: str, pod: PodContext) -> Iterator[FieldError]:
    if kind == "exec":
        if not action.get("command"):
            yield field.required(f"{path}.command")
    elif kind == "sleep":
        seconds, grace = action.get("seconds", 0), pod.grace_period
        if grace is not None and not 0 <= seconds <= grace:
            text = f"must be non-negative and less than terminationGracePeriodSeconds ({grace})"
            yield field.invalid(path, seconds, text)
    else:
        yield from port_number_or_name(action.get("port", 0), f"{path}.port")
    if kind == "httpGet":
        if action.get("scheme") not in ("HTTP", "HTTPS"):
            yield field.not_supported(f"{path}.scheme", action.get("scheme", ""), ("HTTP", "HTTPS"))
        for header in action.get("httpHeaders") or ():
            for text in names.http_header(header.get("name", "")):
                yield field.invalid(f"{path}.httpHeaders", header.get("name", ""), text)


def port_number_or_name(port: int | str, path: str) -> Iterator[FieldError]:
    """ValidatePortNumOrName."""
    wrong = names.port_number(port) if isinstance(port, int) else names.port_name(port)
    for text in wrong:
        yield field.invalid(path, port, text)


def _host_port_conflicts(containers: list[Object], path: str) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for position, port in enumerate(container.get("ports") or ()):
            if number := port.get("hostPort"):
                text = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{number}"
                if text in seen:
                    yield field.duplicate(f"{path}[{index}].ports[{position}].hostPort", text)
                seen.add(text)
