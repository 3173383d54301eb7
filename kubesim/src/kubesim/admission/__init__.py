# SPDX-License-Identifier: BSD-2-Clause
"""Admission: plugins in Kubernetes' order, those that change objects before validation, those that judge after it.

Source: pkg/kubeapiserver/options/plugins.go (AllOrderedPlugins). Of the plugins that are on by default, those are here
whose doings show in what the simulated cluster serves. Not here: TaintNodesByCondition (nodes are ready when they
come), StorageObjectInUseProtection (kinds/pvc.py sets its finalizer), mutating policies, and webhooks but one of Kueue.
"""

from __future__ import annotations

from collections.abc import Callable

from kubesim import escalation
from kubesim.admission import (
    default_toleration_seconds,
    device_admin_access,
    kueue_jobs,
    limit_ranger,
    namespace_lifecycle,
    pod_security,
    priority,
    resource_quota,
    runtime_class,
    service_account,
    validating_policy,
)
from kubesim.admission.request import AdmissionRequest

__all__ = ["MUTATING", "VALIDATING", "AdmissionRequest"]

Plugin = Callable[[AdmissionRequest], None]

MUTATING: list[Plugin] = [
    namespace_lifecycle.admit,
    limit_ranger.admit,
    service_account.admit,
    priority.admit,
    default_toleration_seconds.admit,
    runtime_class.admit,
    kueue_jobs.admit,
    # No plugins in Kubernetes: the storage of roles and bindings asks one, that of claims the other, before validation.
    escalation.check,
    device_admin_access.check,
]
VALIDATING: list[Plugin] = [
    limit_ranger.validate,
    pod_security.validate,
    priority.validate,
    runtime_class.validate,
    validating_policy.validate,
    resource_quota.validate,
]
