# SPDX-License-Identifier: BSD-2-Clause
"""notebook -> StatefulSet with one replica, and Service."""

from __future__ import annotations

from ... import labels
from ...accelerators.equipment import Equipment
from ...manifest.job_models import Notebook
from . import metadata
from .built import Built
from .pod import Additions, accepts_connections, pod_template, probes
from .priority import priority_class
from .service import PORT_NAME, access_service
from .time_limit import limit_annotations


def build_notebook(manifest: Notebook, namespace: str, equipment: Equipment) -> Built:
    """The objects of a notebook: pod ``<name>-0`` behind one Service, which is also the governing one.

    A changed manifest restarts the pod (RollingUpdate). With podManagementPolicy Parallel, a pod that never became
    ready does not block its own replacement (kubernetes #67250); the policy is immutable.
    """
    template, warnings = pod_template(
        manifest,
        namespace,
        equipment,
        Additions(
            container={
                "ports": [{"name": PORT_NAME, "containerPort": manifest.service.port, "protocol": "TCP"}],
                **(probes(manifest.service) or accepts_connections(manifest.service)),
            }
        ),
    )
    workload = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": metadata.workload_metadata(
            manifest, namespace, pods_together=1, noted=limit_annotations(manifest, equipment.pool)
        ),
        "spec": {
            # Immutable, like the selector (pkg/apis/apps/validation, ValidateStatefulSetUpdate).
            "serviceName": labels.service_name(manifest.job.name),
            "replicas": 1,
            "selector": {"matchLabels": labels.pod_selector(manifest.job.name)},
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "RollingUpdate"},
            "template": template,
        },
    }
    return Built(workload, [access_service(manifest, namespace)], priority_class(manifest.job.priority), warnings)
