# SPDX-License-Identifier: BSD-2-Clause
"""The fixtures of the integration tests: attacks, too, are played on any cluster that GPUCTL_TEST_KUBECONFIG names."""

from integration.conftest import (
    _recorder,
    administrator,
    ansible,
    api,
    field,
    kubeconfig,
    namespace,
    recorder,
    submitter,
)

__all__ = [
    "_recorder",
    "administrator",
    "ansible",
    "api",
    "field",
    "kubeconfig",
    "namespace",
    "recorder",
    "submitter",
]
