# SPDX-License-Identifier: BSD-2-Clause
"""Jobs beside the software of vendors, whose manifests have the label app as well."""

from __future__ import annotations

from typing import Any

from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.doctor.doctor import MODULE as DOCTOR
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from ansible_collections.runwhere.gpuctl.plugins.module_utils.stack.stack import MODULE as STACK
from kubesim import Cluster

from .sessions import Session

LABELS = {"app": "exporter"}
PLACE = {"name": "exporter", "namespace": "vendor", "labels": LABELS}
OBJECTS: list[dict[str, Any]] = [
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "vendor"}},
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": PLACE, "data": {"port": "9400"}},
    {"apiVersion": "v1", "kind": "Service", "metadata": PLACE, "spec": {"selector": LABELS, "ports": [{"port": 9400}]}},
]


def test_what_a_stack_has_belongs_to_no_job() -> None:
    with Cluster(nodes=0, controllers=False, behind=900).running() as cluster:
        session = Session(cluster)
        session.run(STACK, name="vendor", objects=OBJECTS)
        cluster.set_clock(behind=0)
        (orphans,) = [each for each in session.run(DOCTOR)["checks"] if each["check"] == "orphans"]
        assert orphans["findings"] == []
        assert not session.run(JOB, name="exporter", namespace="vendor", state="absent")["changed"]
        assert not session.run(STACK, name="vendor", objects=OBJECTS)["changed"]
