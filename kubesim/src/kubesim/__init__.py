# SPDX-License-Identifier: BSD-2-Clause
"""A simulated Kubernetes API server with controllers and fake nodes, for tests. See README.md.

The names in `__all__` are the public API; all other modules are private.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kubesim.admission.pod_security_checks import evaluate_pod_security
    from kubesim.backend import LAB_USER_TOKEN
    from kubesim.cluster import Cluster
    from kubesim.discovery import VERSION
    from kubesim.faults import Fault
    from kubesim.metrics.history import past_pod
    from kubesim.mixed import mixed_objects
    from kubesim.policy_cel import PolicyScope
    from kubesim.request_info import RequestInfo, parse_request
    from kubesim.versions import RELEASES, release

__all__ = [
    "LAB_USER_TOKEN",
    "RELEASES",
    "VERSION",
    "Cluster",
    "Fault",
    "PolicyScope",
    "RequestInfo",
    "evaluate_pod_security",
    "mixed_objects",
    "parse_request",
    "past_pod",
    "release",
]

_MODULES = {
    "LAB_USER_TOKEN": "backend",
    "RELEASES": "versions",
    "VERSION": "discovery",
    "Cluster": "cluster",
    "Fault": "faults",
    "PolicyScope": "policy_cel",
    "RequestInfo": "request_info",
    "evaluate_pod_security": "admission.pod_security_checks",
    "mixed_objects": "mixed",
    "parse_request": "request_info",
    "past_pod": "metrics.history",
    "release": "versions",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used: the server's libraries take a third of a second to load."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"kubesim.{_MODULES[name]}"), name)
    globals()[name] = value
    return value
