# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Hosts of an inventory that are clusters: the group of them, and the connection in their variables. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

from ..module_utils.kube.connect_limit import connect_limit
from ..module_utils.kube.connection import Peer
from ..module_utils.kube.connection_options import connection_argument_spec
from ..module_utils.kube.times import read_time, time_as_text

GROUP = "gpuctl_clusters"
PREFIX = "gpuctl_cluster_"
TAGS = f"{PREFIX}tags"
HOME = "gpuctl_home"  # the cluster with the records of placements

# What says which cluster it is. An option or variable of one cluster beside that of another would mix them.
_NAMES_A_CLUSTER = ("kubeconfig", "context", "host")
_OF_A_CLUSTER = (
    *_NAMES_A_CLUSTER,
    *("api_key", "username", "password", "client_cert", "client_key", "ca_cert", "validate_certs"),
)
_ANSWERED_AT = "runwhere_answered_at"  # a fact; the playbooks refuse unknown variables that begin with gpuctl_


def cluster_options(
    given: Mapping[str, Any], variables: Mapping[str, Any], template: Callable[[Any], Any]
) -> dict[str, Any]:
    """The connection options in the variables of a host, ``gpuctl_cluster_kubeconfig`` and others.

    None if the host has none that names a cluster, or if the task names one itself.
    """
    if any(given.get(name) for name in _NAMES_A_CLUSTER):
        return {}
    names = [name for name in connection_argument_spec() if f"{PREFIX}{name}" in variables]
    options = {name: template(variables[f"{PREFIX}{name}"]) for name in names}
    options = {name: value for name, value in options.items() if value not in (None, "")}
    return options if any(name in options for name in _NAMES_A_CLUSTER) else {}


def cluster_environment(options: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """Variables for a task on a cluster with these options: empty those that are about another cluster.

    A cluster that is down is one of several, so its task gives up early unless an option or variable sets another time.
    """
    if not options:
        return {}
    aliases = {name: spec.get("aliases", ()) for name, spec in connection_argument_spec().items()}
    kept = {"kubeconfig"} if "context" in options and "kubeconfig" not in options else set()
    names = [each for name in _OF_A_CLUSTER if name not in kept for each in (name, *aliases[name])]
    return {**{f"K8S_AUTH_{name.upper()}": "" for name in names}, **connect_limit(environ)}


def clusters_of_play(variables: Mapping[str, Any]) -> list[str]:
    """The hosts of the play that are clusters of the inventory, in its order; those that have failed as well."""
    clusters = set((variables.get("groups") or {}).get(GROUP) or ())
    return [str(host) for host in variables.get("ansible_play_hosts_all") or () if host in clusters]


def registered_by_clusters(name: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """What each cluster of a play has registered as a variable; if there are not several, only the host of the task.

    Read here instead of by a template, to which Ansible gives more time than the clusters take.
    """
    clusters = clusters_of_play(variables)
    hosts = clusters if len(clusters) > 1 else [str(variables["inventory_hostname"])]
    found = {host: variables["hostvars"].raw_get(host).get(name) for host in hosts}
    return {host: _without_objects(result) if isinstance(result, Mapping) else result for host, result in found.items()}


def _without_objects(result: Mapping[str, Any]) -> dict[str, Any]:
    """Without what Ansible has shown of the result already. Since ansible-core 2.19, these are no data."""
    return {key: value for key, value in result.items() if key not in ("exception", "warnings", "deprecations")}


def cluster_of_several(variables: Mapping[str, Any]) -> str | None:
    """The host of the task, if it is one of several clusters of its play."""
    clusters, host = clusters_of_play(variables), str(variables.get("inventory_hostname"))
    return host if len(clusters) > 1 and host in clusters else None


def with_last_answer(result: Mapping[str, Any], facts: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The result of a task on a cluster, with a fact that says when the cluster answered; if it did not, with that time
    of an earlier run in the message.

    An API server that is down cannot say since when. Ansible's cache of facts keeps the time from one run to the next.
    """
    if not result.get("failed"):
        return {**result, "ansible_facts": {_ANSWERED_AT: time_as_text(now)}}
    message = str(result.get("msg"))
    with suppress(ValueError):  # Nothing is known of it, or the cache has something else there.
        if Peer.unreachable in message:
            last = time_as_text(read_time(str(facts.get(_ANSWERED_AT))))
            return {**result, "msg": f"{message} It last answered at {last}."}
    return dict(result)
