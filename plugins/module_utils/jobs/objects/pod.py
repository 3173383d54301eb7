# SPDX-License-Identifier: BSD-2-Clause
"""The pod template: one container, ``main``, with its environment, resources and probes, and everything around it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ... import labels
from ...accelerators.equipment import Equipment
from ...kube.api_objects import Object, sparse
from ...manifest.job_blocks import Environment, EnvVar, JobManifest, Resources, Service
from ...manifest.secrets import marked_in
from ...redaction import mask_value
from . import metadata, scheduling, security, volumes
from .volumes import Volume

Provided = Mapping[str, "str | Object"]
"""Environment variables: name to value, or to ``valueFrom``."""

# For kinds without a startup_timeout, which start within minutes.
_STARTUP_TIMEOUT = 300
_STARTUP_PERIOD = 10
METRICS_PORT = "metrics"
_TWO_DOLLARS = re.compile(r"(?<!\$)\$\$(?![$(])")  # $$( is a literal $(, and $$$$ is $$: both are written on purpose.


@dataclass(frozen=True)
class Additions:
    """What a kind of job adds to the pod that the manifest describes.

    The user's mounts and variables win over ``volumes`` at the same path and ``env`` of the same name. ``command`` and
    ``args`` replace those of the manifest.
    """

    container: Mapping[str, object] = field(default_factory=dict)
    pod: Mapping[str, object] = field(default_factory=dict)
    env: Provided = field(default_factory=dict)
    volumes: tuple[Volume, ...] = ()
    command: list[str] | None = None
    args: list[str] | None = None


def pod_template(
    manifest: JobManifest, namespace: str, equipment: Equipment, additions: Additions
) -> tuple[Object, list[str]]:
    """The pod template of a job, and warnings about what the user overrides."""
    shm = [volumes.shared_memory(manifest.storage.shm)] if manifest.storage.shm else []
    mounted, mount_warnings = volumes.without_collisions([*shm, *additions.volumes], volumes.workdirs(manifest.storage))
    rdma = equipment.pool.rdma_env if manifest.resources.interconnect == "rdma" else {}
    provided = {**(equipment.needs("env") or {}), **rdma, **additions.env}
    env, env_warnings = _environment(provided, manifest.environment.env)
    container = _container(manifest, equipment, additions, env, mounted)
    spec = {
        "containers": [container],
        "volumes": [volume.as_volume for volume in mounted],
        "imagePullSecrets": [{"name": name} for name in manifest.environment.image_pull_secrets],
        **scheduling.placement(manifest, equipment),
        "runtimeClassName": equipment.needs("runtime_class"),
        "resourceClaims": _claims(manifest, equipment),
        **additions.pod,
    }
    template = {
        "metadata": metadata.template_metadata(manifest, namespace, equipment),
        # Service links add variables for every Service of the namespace: thousands for hundreds of jobs, up to the
        # limit of the kernel, and some collide with a program's own (VLLM_PORT).
        "spec": {**sparse(spec), "enableServiceLinks": False, **security.pod_fields(manifest.environment)},
    }
    return template, [*mount_warnings, *env_warnings, *_dollar_warnings(manifest.environment)]


def probes(service: Service) -> Object:
    """The probes of the container; none without a health check.

    Liveness allows two minutes: a model server responds slowly under full load, and reloads its model after a restart.
    """
    if service.health_check is None:
        return {}
    check = {"httpGet": {"path": service.health_check, "port": service.port}}
    # The default timeout of one second (core/v1/defaults.go, SetDefaults_Probe) is too short for a server under load.
    return {
        "startupProbe": {
            **check,
            "periodSeconds": _STARTUP_PERIOD,
            "timeoutSeconds": 5,
            "failureThreshold": math.ceil(startup_seconds(service) / _STARTUP_PERIOD),
        },
        "readinessProbe": {**check, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3},
        "livenessProbe": {**check, "periodSeconds": 20, "timeoutSeconds": 10, "failureThreshold": 6},
    }


def accepts_connections(service: Service) -> Object:
    """The probe of a server whose paths are not known: ready once it listens. Never a reason to restart it."""
    check = {"tcpSocket": {"port": service.port}}
    return {"readinessProbe": {**check, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 3}}


def startup_seconds(service: Service) -> int:
    """Seconds from the start of the container until it has to answer."""
    return service.startup_timeout or _STARTUP_TIMEOUT


def _container(
    manifest: JobManifest, equipment: Equipment, additions: Additions, env: list[Object], mounted: list[Volume]
) -> Object:
    environment = manifest.environment
    return sparse(
        {
            "name": labels.MAIN_CONTAINER,
            "image": environment.image,
            # Explicit, because the default for the tag latest is Always (core/v1/defaults.go, SetDefaults_Container):
            # a restart would then need the registry.
            "imagePullPolicy": "IfNotPresent",
            "command": environment.command if additions.command is None else additions.command,
            "args": environment.args if additions.args is None else additions.args,
            "workingDir": environment.workdir,
            "env": env,
            "resources": _container_resources(manifest.resources, equipment, _claims(manifest, equipment)),
            "volumeMounts": [volume.as_mount for volume in mounted],
            **security.container_fields(environment, manifest.resources),
            **additions.container,
            "ports": _ports(manifest, additions),
        }
    )


def _ports(manifest: JobManifest, additions: Additions) -> list[Object]:
    """Those of the kind of job, and the one of its metrics, by whose name a PodMonitor finds it.

    A list of ports is keyed by number: metrics on the port of the Service keep its name.
    """
    own = additions.container.get("ports")
    ports: list[Object] = own if isinstance(own, list) else []
    metrics = manifest.metrics
    if metrics is None or any(port["containerPort"] == metrics.port for port in ports):
        return ports
    return [*ports, {"name": METRICS_PORT, "containerPort": metrics.port, "protocol": "TCP"}]


def _environment(provided: Provided, given: list[EnvVar]) -> tuple[list[Object], list[str]]:
    """The provided variables, then the user's, which may refer to them as $(NAME) and win over them with a warning."""
    own = {variable.name: variable for variable in given}
    unset = [_provided_variable(name, value) for name, value in provided.items() if name not in own]
    warnings = [
        _override_warning(own[name], value)
        for name, value in provided.items()
        if name in own and own[name].value != value
    ]
    return [*unset, *(_given_variable(variable) for variable in given)], warnings


def _override_warning(given: EnvVar, provided: str | Object) -> str:
    own = "" if given.value is None else f" {mask_value(given.name, given.value, marked_in([given]))!r}"
    other = f" {provided!r}" if isinstance(provided, str) else ""
    return f"environment.env sets {given.name}: the manifest's value{own} is used, not the provided value{other}."


def _dollar_warnings(environment: Environment) -> list[str]:
    """Kubernetes fills in $(NAME), and for that turns $$ into $ (third_party/forked/golang/expansion)."""
    texts = {
        "environment.command": environment.command,
        "environment.args": environment.args,
        **{f"environment.env {variable.name}": [variable.value or ""] for variable in environment.env},
    }
    return [
        f"{place} has $$, which Kubernetes turns into $. Write $$$$ for two."
        for place, words in texts.items()
        if any(_TWO_DOLLARS.search(word) for word in words)
    ]


def _provided_variable(name: str, value: str | Object) -> Object:
    return {"name": name, "value": value} if isinstance(value, str) else {"name": name, "valueFrom": value}


def _given_variable(variable: EnvVar) -> Object:
    return sparse({"name": variable.name, "value": variable.value, "valueFrom": variable.value_from})


def _claims(manifest: JobManifest, equipment: Equipment) -> list[Object]:
    if equipment.devices is None:
        return []
    from .claims import pod_claims  # imported for the few jobs that have some

    return pod_claims(manifest, equipment.devices)


def _container_resources(resources: Resources, equipment: Equipment, claimed: list[Object]) -> Object:
    """Requests and limits are the same, so that no node is overcommitted."""
    # For extended resources, the server requires it (pkg/apis/core/validation, ValidateContainerResourceRequirements).
    gpus = {resource: str(amount) for resource, amount in equipment.amounts.items()}
    amounts = {"cpu": resources.cpu, "memory": resources.memory, **gpus}
    claims = {"claims": [{"name": claim["name"]} for claim in claimed]} if claimed else {}
    return {"requests": amounts, "limits": dict(amounts), **claims}
