# SPDX-License-Identifier: BSD-2-Clause
"""The checks of the pod security levels baseline and restricted, at version latest.

Source: staging/src/k8s.io/pod-security-admission/policy/check_*.go; they run in the order of their names there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kubesim.field import go_quote
from kubesim.kinds.podspec import PROBES

Object = dict[str, Any]

PRIVILEGED, BASELINE, RESTRICTED = "privileged", "baseline", "restricted"

_CAPABILITIES = {
    "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP",
    "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}  # fmt: skip
_SYSCTLS = {
    "kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes", "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
}  # fmt: skip
_SELINUX_TYPES = {"", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"}
_RESTRICTED_VOLUMES = {
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
}  # fmt: skip


@dataclass(frozen=True)
class Violation:
    reason: str
    detail: str = ""


Check = Callable[[Object], Violation | None]


def evaluate_pod_security(level: str, spec: Object, version: str = "latest") -> list[Violation]:
    """What in a pod spec the level does not allow, in the order of the checks."""
    minor = None if version == "latest" else int(version.removeprefix("v1."))
    checks = {PRIVILEGED: (), BASELINE: _BASELINE, RESTRICTED: _RESTRICTED}[level]
    if minor is not None and minor < _HOST_PROBES_SINCE:
        checks = tuple(check for check in checks if check is not _host_probes)
    return [violation for check in checks if (violation := check(spec)) is not None]


def _allow_privilege_escalation(spec: Object) -> Violation | None:
    bad = [name for name, context in _contexts(spec) if context.get("allowPrivilegeEscalation") is not False]
    text = "must set securityContext.allowPrivilegeEscalation=false"
    return _by_containers("allowPrivilegeEscalation != false", bad, text)


def _app_armor(spec: Object) -> Violation | None:
    def is_bad(context: Object) -> bool:
        return (context.get("appArmorProfile") or {}).get("type") == "Unconfined"

    setters = _setters(spec, is_bad)
    if not setters:
        return None
    return Violation("forbidden AppArmor profile", f'{setters} must not set AppArmor profile type to "Unconfined"')


def _baseline_capabilities(spec: Object) -> Violation | None:
    added = {name: {*_capabilities(context, "add")} - _CAPABILITIES for name, context in _contexts(spec)}
    bad = [name for name, capabilities in added.items() if capabilities]
    listed = _quoted(sorted(set().union(*added.values())))
    text = f"must not include {listed} in securityContext.capabilities.add"
    return _by_containers("non-default capabilities", bad, text)


def _restricted_capabilities(spec: Object) -> Violation | None:
    contexts = list(_contexts(spec))
    keeping = [name for name, context in contexts if "ALL" not in _capabilities(context, "drop")]
    added = {name: {*_capabilities(context, "add")} - {"NET_BIND_SERVICE"} for name, context in contexts}
    adding = [name for name, capabilities in added.items() if capabilities]
    details = []
    if keeping:
        details.append(f'{_containers(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        listed = _quoted(sorted(set().union(*added.values())))
        details.append(f"{_containers(adding)} must not include {listed} in securityContext.capabilities.add")
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def _host_namespaces(spec: Object) -> Violation | None:
    shared = [f"{key}=true" for key in ("hostNetwork", "hostPID", "hostIPC") if spec.get(key)]
    return Violation("host namespaces", ", ".join(shared)) if shared else None


def _host_path_volumes(spec: Object) -> Violation | None:
    bad = [volume.get("name", "") for volume in spec.get("volumes") or () if "hostPath" in volume]
    return Violation("hostPath volumes", f"{_plural('volume', bad)} {_quoted(bad)}") if bad else None


def _host_ports(spec: Object) -> Violation | None:
    used = {
        container.get("name", ""): {
            str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")
        }
        for container in _every_container(spec)
    }
    bad = [name for name, ports in used.items() if ports]
    ports = sorted(set().union(*used.values()))
    verb = "uses" if len(bad) == 1 else "use"
    return _by_containers("hostPort", bad, f"{verb} {_plural('hostPort', ports)} {', '.join(ports)}")


def _host_probes(spec: Object) -> Violation | None:
    used: dict[str, set[str]] = {}
    for container in _every_container(spec):
        handlers = [container.get(probe) or {} for probe in PROBES]
        handlers += [(container.get("lifecycle") or {}).get(hook) or {} for hook in ("postStart", "preStop")]
        found = {(h.get(kind) or {}).get("host", "") for h in handlers for kind in ("httpGet", "tcpSocket")} - {""}
        if found:
            used[container.get("name", "")] = found
    hosts = sorted(set().union(*used.values()))
    verb = "uses" if len(used) == 1 else "use"
    text = f"{verb} {_plural('probe or lifecycle host', hosts)} {_quoted(hosts)}"
    return _by_containers("probe or lifecycle host", sorted(used), text)


def _privileged(spec: Object) -> Violation | None:
    bad = [name for name, context in _contexts(spec) if context.get("privileged")]
    return _by_containers("privileged", bad, "must not set securityContext.privileged=true")


def _proc_mount(spec: Object) -> Violation | None:
    mounts = {
        name: context["procMount"]
        for name, context in _contexts(spec)
        if context.get("procMount", "Default") != "Default"
    }
    text = f"must not set securityContext.procMount to {_quoted(sorted({*mounts.values()}))}"
    return _by_containers("procMount", list(mounts), text)


def _restricted_volumes(spec: Object) -> Violation | None:
    bad = {volume.get("name", ""): {*volume} - {"name"} - _RESTRICTED_VOLUMES for volume in spec.get("volumes") or ()}
    names = [name for name, kinds in bad.items() if kinds]
    if not names:
        return None
    kinds = sorted(set().union(*bad.values()))
    verb = "uses" if len(names) == 1 else "use"
    forbidden = f"restricted volume {_plural('type', kinds)} {_quoted(kinds)}"
    return Violation("restricted volume types", f"{_plural('volume', names)} {_quoted(names)} {verb} {forbidden}")


def _run_as_non_root(spec: Object) -> Violation | None:
    said = (spec.get("securityContext") or {}).get("runAsNonRoot")
    setters = _setters(spec, lambda context: context.get("runAsNonRoot") is False)
    reason = "runAsNonRoot != true"
    if setters:
        return Violation(reason, f"{setters} must not set securityContext.runAsNonRoot=false")
    silent = [name for name, context in _contexts(spec) if context.get("runAsNonRoot") is None]
    if silent and not said:
        return Violation(reason, f"pod or {_containers(silent)} must set securityContext.runAsNonRoot=true")
    return None


def _run_as_user(spec: Object) -> Violation | None:
    setters = _setters(spec, lambda context: context.get("runAsUser") == 0)
    return Violation("runAsUser=0", f"{setters} must not set runAsUser=0") if setters else None


def _selinux(spec: Object) -> Violation | None:
    options: list[Object] = []

    def is_bad(context: Object) -> bool:
        found = context.get("seLinuxOptions") or {}
        bad = found.get("type", "") not in _SELINUX_TYPES or bool(found.get("user")) or bool(found.get("role"))
        if bad:
            options.append(found)
        return bad

    setters = _setters(spec, is_bad)
    if not setters:
        return None
    types = sorted({option.get("type", "") for option in options} - _SELINUX_TYPES)
    data = [f"{_plural('type', types)} {_quoted(types)}"] if types else []
    data += [f"{key} may not be set" for key in ("user", "role") if any(option.get(key) for option in options)]
    return Violation("seLinuxOptions", f"{setters} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}")


def _baseline_seccomp(spec: Object) -> Violation | None:
    setters = _setters(spec, lambda context: _seccomp(context) == "Unconfined")
    text = 'must not set securityContext.seccompProfile.type to "Unconfined"'
    return Violation("seccompProfile", f"{setters} {text}") if setters else None


def _restricted_seccomp(spec: Object) -> Violation | None:
    allowed = ("RuntimeDefault", "Localhost")
    bad_types: set[str] = set()

    def is_bad(context: Object) -> bool:
        found = _seccomp(context)
        if found is None or found in allowed:
            return False
        bad_types.add(found)
        return True

    setters = _setters(spec, is_bad)
    if setters:
        text = f"must not set securityContext.seccompProfile.type to {_quoted(sorted(bad_types))}"
        return Violation("seccompProfile", f"{setters} {text}")
    silent = [name for name, context in _contexts(spec) if _seccomp(context) is None]
    if silent and _seccomp(spec.get("securityContext") or {}) is None:
        text = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
        return Violation("seccompProfile", f"pod or {_containers(silent)} {text}")
    return None


def _sysctls(spec: Object) -> Violation | None:
    used = [sysctl.get("name", "") for sysctl in (spec.get("securityContext") or {}).get("sysctls") or ()]
    bad = [name for name in used if name not in _SYSCTLS]
    return Violation("forbidden sysctls", ", ".join(bad)) if bad else None


def _host_process(spec: Object) -> Violation | None:
    setters = _setters(spec, lambda context: bool((context.get("windowsOptions") or {}).get("hostProcess")))
    text = "must not set securityContext.windowsOptions.hostProcess=true"
    return Violation("hostProcess", f"{setters} {text}") if setters else None


_BASELINE: tuple[Check, ...] = (
    _app_armor,
    _baseline_capabilities,
    _host_namespaces,
    _host_path_volumes,
    _host_ports,
    _host_probes,
    _privileged,
    _proc_mount,
    _selinux,
    _baseline_seccomp,
    _sysctls,
    _host_process,
)
_OVERRIDDEN = (_baseline_capabilities, _host_path_volumes, _baseline_seccomp)
#: The minor version of Kubernetes that began to look at them. Other checks are those of the newest version.
_HOST_PROBES_SINCE = 34
#: As the registry of checks orders them: what remains of baseline, then what restricted adds or overrides.
_RESTRICTED: tuple[Check, ...] = (
    *(check for check in _BASELINE if check not in _OVERRIDDEN),
    _allow_privilege_escalation,
    _restricted_capabilities,
    _restricted_volumes,
    _run_as_non_root,
    _run_as_user,
    _restricted_seccomp,
)


def _every_container(spec: Object) -> Iterator[Object]:
    """visitContainers: init containers first."""
    for key in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(key) or ()


def _contexts(spec: Object) -> Iterator[tuple[str, Object]]:
    for container in _every_container(spec):
        yield container.get("name", ""), container.get("securityContext") or {}


def _setters(spec: Object, is_bad: Callable[[Object], bool]) -> str:
    """What sets something forbidden, as in `pod and container "a"`; "" when nothing does."""
    setters = ["pod"] if is_bad(spec.get("securityContext") or {}) else []
    bad = [name for name, context in _contexts(spec) if is_bad(context)]
    if bad:
        setters.append(_containers(bad))
    return " and ".join(setters)


def _by_containers(reason: str, bad: list[str], text: str) -> Violation | None:
    return Violation(reason, f"{_containers(bad)} {text}") if bad else None


def _containers(names: list[str]) -> str:
    return f"{_plural('container', names)} {_quoted(names)}"


def _capabilities(context: Object, key: str) -> list[str]:
    return (context.get("capabilities") or {}).get(key) or []


def _seccomp(context: Object) -> str | None:
    profile = context.get("seccompProfile")
    return None if profile is None else profile.get("type", "")


def _plural(word: str, things: list[str]) -> str:
    return word if len(things) == 1 else f"{word}s"


def _quoted(values: list[str]) -> str:
    return ", ".join(map(go_quote, values))
