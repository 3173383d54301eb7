# SPDX-License-Identifier: BSD-2-Clause
"""The words shared with the cluster: what is written is what is selected."""

from __future__ import annotations

from ansible_collections.runwhere.gpuctl.plugins.module_utils import labels


def test_pods_are_selected_by_labels_that_they_carry() -> None:
    carried = labels.job_labels("bert", kind="training", priority="low", pool="p", namespace="n")
    selected = dict(pair.split("=") for pair in labels.pods_of("bert").split(","))
    assert selected.items() <= carried.items()


def test_unmanaged_pods_with_the_same_app_label_are_not_selected() -> None:
    assert labels.pods_of("bert") == "app=bert,app.kubernetes.io/managed-by=runwhere.gpuctl"
