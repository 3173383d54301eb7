# SPDX-License-Identifier: BSD-2-Clause
"""What the handlers of requests share: the state of a cluster, who may do what, and what a test has asked for.

cluster.py puts a server in front of it and controllers behind it. Handlers take this, not the cluster.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection
from pathlib import Path
from typing import Any

from kubesim import admission, kinds
from kubesim.auth import AUTHENTICATED, MASTERS, Authenticator, Authorizer, User
from kubesim.clock import Clock
from kubesim.faults import Faults
from kubesim.metrics.exporters import Exporters
from kubesim.metrics.served import ServedMetrics
from kubesim.registry import Registry
from kubesim.request_log import RequestLog
from kubesim.store import Store
from kubesim.versions import CLOSED_STREAMS_SINCE, Release

LAB_USER_TOKEN = "lab-user-token"  # a name of the contract, no secret
_NEWEST = Release()
ADMIN = User("lab-admin", "lab-admin", (MASTERS, AUTHENTICATED))
LAB_USER = User("lab-user", "lab-user", (AUTHENTICATED,))


class Backend:
    def __init__(
        self,
        addons: Collection[str] = (),
        without: Collection[str] = (),
        exec_root: Path | None = None,
        exec_guarded: bool = False,
        release: Release = _NEWEST,
    ) -> None:
        self.addons, self.release = addons, release
        self.without = frozenset(without) | release.without
        self.exec_root, self.exec_guarded = exec_root, exec_guarded
        #: Servers before Kubernetes 1.30 know the second alone, which cannot close stdin.
        self.exec_protocols: tuple[str, ...] = ("v5.channel.k8s.io", "v4.channel.k8s.io")
        if release.minor < CLOSED_STREAMS_SINCE:
            self.exec_protocols = ("v4.channel.k8s.io",)
        self.clock = Clock()
        self.store = Store()
        self.registry = Registry(self.store, self.clock, kinds.strategies(release), admission, release)
        self.token = secrets.token_urlsafe(24)
        self.authenticator = Authenticator(
            {self.token: ADMIN, **({} if exec_guarded else {LAB_USER_TOKEN: LAB_USER})},
            lambda namespace, name: self.registry.get("ServiceAccount", namespace, name),
            lambda: self.clock.now().timestamp(),
        )
        self.authorizer = Authorizer(self.registry.get, self.registry.list)
        self.requests = RequestLog()
        self.faults = Faults()
        #: Programs behind the proxy subresource: (plural, namespace, name, port) -> URL.
        self.programs: dict[tuple[str, str, str, str], str] = {}
        self.exporters = Exporters(self.registry)
        #: What an adapter serves, with the addons custom-metrics and external-metrics.
        self.served = ServedMetrics(self.registry)
        #: The kubelet of all nodes, which knows logs, once the controllers have started.
        self.kubelet: Any = None
        #: Where the server listens, once it does.
        self.url = ""
