# SPDX-License-Identifier: BSD-2-Clause
"""The roles and bindings that every cluster has, as far as tests need them.

Source: plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy.go (admin, edit and view with the resources served here).
"""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
_GROUP = "rbac.authorization.k8s.io"
_READ = ["get", "list", "watch"]
_WRITE = ["create", "delete", "deletecollection", "patch", "update"]
_LABELS = {"kubernetes.io/bootstrapping": "rbac-defaults"}
_HEALTH = ["/healthz", "/livez", "/readyz", "/version", "/version/"]
_WORKLOADS: tuple[tuple[str, list[str]], ...] = (
    ("", ["configmaps", "endpoints", "persistentvolumeclaims", "pods", "serviceaccounts", "services"]),
    ("apps", ["daemonsets", "deployments", "deployments/scale", "replicasets", "replicasets/scale", "statefulsets",
              "statefulsets/scale"]),
    ("autoscaling", ["horizontalpodautoscalers"]),
    ("batch", ["cronjobs", "jobs"]),
    ("networking.k8s.io", ["ingresses"]),
    ("policy", ["poddisruptionbudgets"]),
)  # fmt: skip
_SEEN = [
    *("bindings", "events", "limitranges", "namespaces", "namespaces/status", "pods/log", "pods/status"),
    *("resourcequotas", "resourcequotas/status"),
]


def _rule(group: str, resources: list[str], verbs: list[str]) -> Object:
    return {"verbs": verbs, "apiGroups": [group], "resources": resources}


def _view() -> list[Object]:
    return [*(_rule(group, names, _READ) for group, names in _WORKLOADS), _rule("", _SEEN, _READ)]


def _edit() -> list[Object]:
    return [
        *_view(),
        _rule("", ["secrets", "pods/attach", "pods/exec", "pods/portforward", "pods/proxy"], _READ),
        *(_rule(group, names, _WRITE) for group, names in _WORKLOADS),
        _rule("", ["secrets", "pods/eviction"], _WRITE),
        _rule("coordination.k8s.io", ["leases"], [*_READ, *_WRITE]),
    ]


def _admin() -> list[Object]:
    return [
        *_edit(),
        _rule("authorization.k8s.io", ["localsubjectaccessreviews"], ["create"]),
        _rule(_GROUP, ["rolebindings", "roles"], [*_READ, *_WRITE]),
    ]


_ROLES: dict[str, list[Object]] = {
    "cluster-admin": [_rule("*", ["*"], ["*"]), {"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "admin": _admin(),
    "edit": _edit(),
    "view": _view(),
    "system:basic-user": [
        _rule("authorization.k8s.io", ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], ["create"]),
        _rule("authentication.k8s.io", ["selfsubjectreviews"], ["create"]),
    ],
    "system:discovery": [
        {
            "verbs": ["get"],
            "nonResourceURLs": ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*", *_HEALTH],
        }
    ],
    "system:public-info-viewer": [{"verbs": ["get"], "nonResourceURLs": _HEALTH}],
}
_BINDINGS = {
    "cluster-admin": ("system:masters",),
    "system:basic-user": ("system:authenticated",),
    "system:discovery": ("system:authenticated",),
    "system:public-info-viewer": ("system:authenticated", "system:unauthenticated"),
}


def objects() -> list[tuple[str, Object]]:
    """(kind, object) of each role and binding."""
    roles = [
        ("ClusterRole", {"metadata": {"name": name, "labels": dict(_LABELS)}, "rules": rules})
        for name, rules in _ROLES.items()
    ]
    bindings = [
        (
            "ClusterRoleBinding",
            {
                "metadata": {"name": name, "labels": dict(_LABELS)},
                "roleRef": {"apiGroup": _GROUP, "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "Group", "apiGroup": _GROUP, "name": group} for group in groups],
            },
        )
        for name, groups in _BINDINGS.items()
    ]
    return roles + bindings
