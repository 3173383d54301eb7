# SPDX-License-Identifier: BSD-2-Clause
"""The kind of a rejection, from the texts of Kubernetes."""

from __future__ import annotations

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ApiError

BY_RBAC = 'jobs.batch is forbidden: User "u" cannot list resource "jobs" in API group "batch" in the namespace "n"'


@pytest.mark.parametrize(
    ("status", "message", "forbidden", "missing_namespace"),
    [
        (403, BY_RBAC, True, False),
        (403, 'jobs.batch "j" is forbidden: ', True, False),
        (403, 'jobs.batch "j" is forbidden: RBAC: clusterrole.rbac.authorization.k8s.io "r" not found', True, False),
        (
            403,
            'pods "p" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1',
            False,
            False,
        ),
        (404, 'namespaces "n" not found', False, True),
        (404, 'deployments.apps "d" not found', False, False),
        (403, 'namespaces "n" is forbidden: this namespace may not be deleted', False, False),
    ],
)
def test_the_kind_of_a_rejection(status: int, message: str, forbidden: bool, missing_namespace: bool):
    error = ApiError("PATCH", "/p", status, {"message": message})
    assert (error.is_forbidden, error.is_missing_namespace) == (forbidden, missing_namespace)
