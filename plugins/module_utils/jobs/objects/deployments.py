# SPDX-License-Identifier: BSD-2-Clause
"""inference and compute -> Deployment and Service, and an autoscaler where an inference asks for one."""

from __future__ import annotations

from ... import labels
from ...accelerators.catalog import ExportedSeries, Profile
from ...accelerators.equipment import Equipment
from ...kube.api_objects import Object, sparse
from ...manifest.job_models import Autoscaling, Compute, Inference
from ...quantity import parse
from . import metadata
from .built import Built
from .pod import Additions, pod_template, probes, startup_seconds
from .priority import priority_class
from .service import PORT_NAME, access_service
from .time_limit import limit_annotations

# Seconds that a request may take: a long answer of a language model may be streamed to its end.
_LONGEST_REQUEST = {"inference": 110, "compute": 50}
# A terminating pod still gets requests until every node has updated its routes. The grace period includes the time of
# preStop (kuberuntime_container.go, killContainer), so the two are added.
_DRAIN_SECONDS = 10
# Time to pull the image before the container starts; Kubernetes' own default for the whole deadline.
_PULL_SECONDS = 600
# Load comes in waves and a model takes minutes to load: replicas are removed only after ten quiet minutes.
_SCALE_DOWN_AFTER = 600


def build_inference(manifest: Inference, namespace: str, equipment: Equipment) -> Built:
    """The objects of an inference. With ``autoscaling`` the replicas belong to the autoscaler and are not applied."""
    scaling = manifest.autoscaling
    replicas = manifest.service.replicas if scaling is None else None
    workload, warnings = _deployment(manifest, namespace, equipment, replicas)
    dependents = [access_service(manifest, namespace)]
    if scaling is not None:
        dependents.append(_autoscaler(manifest, scaling, namespace, equipment))
        if "replicas" in manifest.service.model_fields_set:
            kept = f"{scaling.min_replicas} to {scaling.max_replicas}"
            warnings.append(f"service.replicas is ignored: autoscaling keeps {kept} replicas.")
    return Built(workload, dependents, priority_class(manifest.job.priority), warnings)


def build_compute(manifest: Compute, namespace: str, equipment: Equipment) -> Built:
    """The objects of a compute service."""
    workload, warnings = _deployment(manifest, namespace, equipment, manifest.service.replicas)
    return Built(workload, [access_service(manifest, namespace)], priority_class(manifest.job.priority), warnings)


def _deployment(
    manifest: Inference | Compute, namespace: str, equipment: Equipment, replicas: int | None
) -> tuple[Object, list[str]]:
    """The Deployment and warnings. ``replicas`` is None when an autoscaler owns them."""
    served = manifest.service
    template, warnings = pod_template(
        manifest,
        namespace,
        equipment,
        Additions(
            container={
                "ports": [{"name": PORT_NAME, "containerPort": served.port, "protocol": "TCP"}],
                "lifecycle": {"preStop": {"sleep": {"seconds": _DRAIN_SECONDS}}},
                **probes(served),
            },
            pod={"terminationGracePeriodSeconds": _DRAIN_SECONDS + _LONGEST_REQUEST[manifest.kind]},
        ),
    )
    spec = {
        "replicas": replicas,
        # Immutable (pkg/apis/apps/validation), so it has nothing that another manifest of the job could change.
        "selector": {"matchLabels": labels.pod_selector(manifest.job.name)},
        "strategy": {"type": "RollingUpdate", "rollingUpdate": _rolling_update(equipment)},
        "progressDeadlineSeconds": startup_seconds(served) + _PULL_SECONDS,
        "template": template,
    }
    workload = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": metadata.workload_metadata(
            manifest, namespace, pods_together=1, noted=limit_annotations(manifest, equipment.pool)
        ),
        "spec": sparse(spec),
    }
    return workload, warnings


def _rolling_update(equipment: Equipment) -> Object:
    """GPU pods are removed first: where all GPUs are in use, a surplus pod would stay pending."""
    if equipment.requests:
        return {"maxSurge": 0, "maxUnavailable": 1}
    return {"maxSurge": 1, "maxUnavailable": 0}


def _autoscaler(manifest: Inference, scaling: Autoscaling, namespace: str, equipment: Equipment) -> Object:
    """The autoscaler that owns ``replicas`` of the job's Deployment."""
    name = manifest.job.name
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": metadata.dependent_metadata(manifest, namespace, name),
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicas": scaling.min_replicas,
            "maxReplicas": scaling.max_replicas,
            "metrics": [_metric(scaling, equipment)],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": _SCALE_DOWN_AFTER}},
        },
    }


def _metric(scaling: Autoscaling, equipment: Equipment) -> Object:
    if scaling.metric == "cpu":  # in percent of what the pods request
        target: Object = {"type": "Utilization", "averageUtilization": int(scaling.target)}
        return {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    name, value = scaling.metric, scaling.target
    if scaling.metric == "gpu_utilization" and (exported := _utilization(equipment.profile)):
        # What the vendor's exporter measures per pod, under the name that prometheus-adapter serves it by default.
        name = exported.name
        value = value if exported.is_percent else str(parse(float(parse(value).value) / 100))
    amount = {"type": "AverageValue", "averageValue": value}
    return {"type": "Pods", "pods": {"metric": {"name": name}, "target": amount}}


def _utilization(profile: Profile) -> ExportedSeries | None:
    """The utilization of whole devices, in percent where the exporter has both."""
    series = [
        series for exporter in profile.exporters if not exporter.backend for series in exporter.series("utilization")
    ]
    return next((each for each in series if each.is_percent), series[0] if series else None)
