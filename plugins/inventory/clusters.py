# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inventory plugin clusters."""

from __future__ import annotations

DOCUMENTATION = r"""
name: clusters
short_description: Kubernetes clusters as inventory hosts
version_added: 1.2.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Creates a host for each context of kubeconfigs, in the group C(gpuctl_clusters). The playbooks of this collection run on these
    hosts unless C(gpuctl_hosts) says otherwise, and show all clusters on one screen.
  - The connection is in variables of the host, which begin with C(gpuctl_cluster_) and are called as the option of the modules,
    such as C(gpuctl_cluster_kubeconfig), C(gpuctl_cluster_context), C(gpuctl_cluster_host) and C(gpuctl_cluster_api_key). All
    modules of this collection use them, also those of hosts that come from another inventory. If a task names a cluster itself,
    with C(kubeconfig), C(context) or C(host), it uses none of them. If they name the cluster, the C(K8S_AUTH_*) variables that
    name one, or hold credentials, are ignored.
  - No request is sent. Of a kubeconfig, only the names of its contexts are read, and no credentials.
  - The name of the inventory file must be C(clusters.yml) or C(clusters.yaml), or end with C(.clusters.yml) or C(.clusters.yaml).
options:
  plugin:
    description: Name of the plugin.
    type: str
    required: true
    choices: [runwhere.gpuctl.clusters]
  kubeconfig:
    description:
      - Paths to kubeconfigs and to directories. Relative paths start from the directory of the inventory file.
      - Each context of a kubeconfig is a host of that name. Characters that a pattern of hosts cannot have are replaced by
        hyphens.
      - Each file of a directory is a host with the name of the file, without its extension, and with the current context of the
        file. Hidden files are left out.
      - If unset, E(K8S_AUTH_KUBECONFIG), E(KUBECONFIG) or C(~/.kube/config) is used.
    type: list
    elements: str
  contexts:
    description: Names or patterns, such as V(gpu-*), of the hosts to create. By default all.
    type: list
    elements: str
  tags:
    description:
      - What is known of clusters beside their connection, by the name of the host, such as C(region), C(vendor), C(price) per
        GPU-hour or C(trust). With C(registries), a registry or repository or a list of them, the playbook C(submit) places only jobs there
        whose image is in one of these.
      - They are in the variable C(gpuctl_cluster_tags) of the host, and each text makes a group of its name and value, such as
        C(region_eu).
    type: dict
  home:
    description:
      - Name of the host with the records of placements, which say in which cluster the playbook C(submit) has put each job. It is the
        variable C(gpuctl_home) of the clusters.
      - Choose one that stays, and do not change it later. Other controllers that submit the same jobs need the same.
    type: str
requirements:
  - PyYAML >= 6.0
notes:
  - Variables of other files apply as to any host. A token from a vault is C(gpuctl_cluster_api_key) in
    C(host_vars/<cluster>.yml) beside the inventory file.
  - A cluster without a kubeconfig is a host of any inventory in the group C(gpuctl_clusters), with C(ansible_connection=local)
    and C(gpuctl_cluster_host).
  - Option values can be templates.
seealso:
  - plugin: runwhere.gpuctl.gpuctl
    plugin_type: inventory
extends_documentation_fragment:
  - ansible.builtin.constructed
"""

EXAMPLES = r"""
---
# A host for each context of the default kubeconfig. Save this as clusters.yml.
plugin: runwhere.gpuctl.clusters

---
# Contexts by name, a directory of kubeconfigs, and what is known of the clusters
plugin: runwhere.gpuctl.clusters
kubeconfig:
  - ~/.kube/config
  - kubeconfigs/
contexts: [gpu-*, lab]
tags:
  gpu-frankfurt: {region: eu, vendor: nvidia, price: 2.4}
  lab: {region: eu, vendor: huawei, trust: internal}
home: gpu-frankfurt

---
# Groups from the tags, and a variable for all clusters
plugin: runwhere.gpuctl.clusters
compose:
  gpuctl_prometheus_service: "'monitoring/prometheus'"
groups:
  cheap: (gpuctl_cluster_tags.price | default(99)) < 2
keyed_groups:
  - key: gpuctl_cluster_tags.trust | default('')
    prefix: trusted
    default_value: unknown
"""

import os
import re
import sys
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible import constants as C
from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Constructable
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection_options import chosen_kubeconfig
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.kubeconfig import contexts_of, missing_files
from ansible_collections.runwhere.gpuctl.plugins.module_utils.libraries import missing_library
from ansible_collections.runwhere.gpuctl.plugins.module_utils.printable import printable, printable_data
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.ansible_core import as_unsafe
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.cluster_hosts import GROUP, HOME, PREFIX, TAGS
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.variable_problems import unknown_option

if TYPE_CHECKING:
    from ansible.inventory.data import InventoryData
    from ansible.parsing.dataloader import DataLoader

_FILES = ("clusters.yml", "clusters.yaml")
_EXTENSIONS = (".kubeconfig", ".conf", ".config", ".yaml", ".yml")


class ClusterHost(NamedTuple):
    """A cluster by the name of its host, with where its connection is."""

    name: str
    kubeconfig: str
    context: str


class InventoryModule(BaseInventoryPlugin, Constructable):  # type: ignore[misc]  # ansible is not typed
    NAME = "runwhere.gpuctl.clusters"

    def verify_file(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        is_inventory = name in _FILES or name.endswith(tuple(f".{file}" for file in _FILES))
        return is_inventory and bool(super().verify_file(path))

    def parse(self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        config = self._read_config_data(path)
        try:
            if unknown := unknown_option(config, self.get_options(), self.NAME):
                raise ClusterProblem(unknown)
            given = [self._option(each) for each in self.get_option("kubeconfig") or [default_kubeconfig(os.environ)]]
            found = clusters_of(given, os.path.dirname(os.path.abspath(path)))
            clusters = chosen_clusters(found, self.get_option("contexts") or [])
            tags = self._option(self.get_option("tags") or {})
            refuse_unusable_tags(tags, found)
            home = home_of(self._option(self.get_option("home")), clusters)
        except ImportError as problem:
            raise AnsibleParserError(f"{path}: {missing_library(str(problem.name))}") from problem
        except ClusterProblem as problem:
            raise AnsibleParserError(f"{path}: {printable(str(problem))}") from None
        inventory.add_group(GROUP)
        if home:
            inventory.set_variable(GROUP, HOME, home)
        for cluster in clusters:
            self._add_cluster(cluster, tags.get(cluster.name) or {})

    def _option(self, value: Any) -> Any:
        """Ansible leaves templates in the options of an inventory plugin to the plugin."""
        return self.templar.template(value)

    def _add_cluster(self, cluster: ClusterHost, tags: Mapping[str, Any]) -> None:
        # Contexts and paths are names, and no templates.
        variables: dict[str, Any] = as_unsafe(
            {
                "ansible_connection": "local",
                "ansible_python_interpreter": sys.executable,
                f"{PREFIX}kubeconfig": cluster.kubeconfig,
                f"{PREFIX}context": cluster.context,
                TAGS: printable_data(dict(tags)),
            }
        )
        name, strict = cluster.name, self.get_option("strict")
        self.inventory.add_host(name, group=GROUP)
        for variable, value in variables.items():
            self.inventory.set_variable(name, variable, value)
        for tag, value in tags.items():
            if isinstance(value, str):
                group = self.inventory.add_group(self._sanitize_group_name(f"{tag}_{value}"))
                self.inventory.add_child(group, name)
        self._set_composite_vars(self.get_option("compose"), variables, name, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), variables, name, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, name, strict=strict)


class ClusterProblem(Exception):
    """What is wrong with the clusters of an inventory file."""


def default_kubeconfig(environ: Mapping[str, str]) -> str:
    return str(chosen_kubeconfig({"kubeconfig": environ.get("K8S_AUTH_KUBECONFIG")}, environ))


def clusters_of(given: list[str], directory: str) -> list[ClusterHost]:
    """The clusters of files and directories, whose relative paths start from ``directory``. Raises ClusterProblem."""
    found = [cluster for path in given for cluster in _clusters_of(path, directory)]
    names = [cluster.name for cluster in found]
    for cluster in found:
        if names.count(cluster.name) > 1:
            places = ", ".join(each.kubeconfig for each in found if each.name == cluster.name)
            raise ClusterProblem(f"several clusters have the name {cluster.name}: {places}. Rename a context or file.")
        if not cluster.name or cluster.name in C.LOCALHOST:
            raise ClusterProblem(
                f"context {cluster.context!r} of {cluster.kubeconfig} cannot be the name of a host. Rename it."
            )
    return found


def chosen_clusters(found: list[ClusterHost], patterns: list[str]) -> list[ClusterHost]:
    """Those that the patterns select, if there are any. Raises ClusterProblem for one that selects none."""
    names = [cluster.name for cluster in found]
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in names):
            raise ClusterProblem(f"contexts: no cluster is called {pattern}. Found: {', '.join(names)}.")
    return [each for each in found if not patterns or any(fnmatchcase(each.name, pattern) for pattern in patterns)]


def _clusters_of(given: str, directory: str) -> Iterator[ClusterHost]:
    """A directory may hold files of other tools, but every kubeconfig that is named has contexts."""
    paths = [os.path.join(directory, os.path.expanduser(path)) for path in given.split(os.pathsep) if path]
    if len(paths) == 1 and os.path.isdir(paths[0]):
        files = sorted(file for file in Path(paths[0]).iterdir() if file.is_file() and not file.name.startswith("."))
        for file in files:
            contexts, current = contexts_of(str(file))
            if not contexts:
                raise ClusterProblem(f"no kubeconfig with contexts: {file}. Move it out of the directory.")
            context = current if current in contexts else next(iter(contexts), "")
            if current not in contexts and len(contexts) > 1:
                raise ClusterProblem(f"no current context in {file}. Set current-context, or name the file itself.")
            name = file.name.removesuffix(next((end for end in _EXTENSIONS if file.name.endswith(end)), ""))
            yield ClusterHost(host_name(name), str(file), context)
        if not files:
            raise ClusterProblem(f"no kubeconfig in the directory {paths[0]}. Put one for each cluster there.")
        return
    kubeconfig = os.pathsep.join(paths)
    if missing := missing_files(kubeconfig):
        raise ClusterProblem(
            f"kubeconfig not found: {os.pathsep.join(missing)}. Set kubeconfig to a file or directory."
        )
    contexts, _current = contexts_of(kubeconfig)
    if not contexts:
        raise ClusterProblem(
            f"no kubeconfig with contexts: {kubeconfig}. Set kubeconfig to a file by which kubectl works."
        )
    for context in contexts:
        yield ClusterHost(host_name(context), kubeconfig, context)


def host_name(context: str) -> str:
    """The context without what separates hosts and patterns, such as the colons of ``arn:aws:eks:eu:1:cluster/gpu``."""
    return re.sub(r"[^\w.@-]+", "-", context, flags=re.ASCII).strip("-")


def home_of(given: Any, clusters: list[ClusterHost]) -> str | None:
    """The name of the home cluster, if one is given. Raises ClusterProblem."""
    names = [cluster.name for cluster in clusters]
    if given and given not in names:
        raise ClusterProblem(f"home: no cluster is called {given}. Found: {', '.join(names)}.")
    return given or None


def refuse_unusable_tags(tags: Any, clusters: list[ClusterHost]) -> None:
    """Raises ClusterProblem, also for a cluster that does not exist: it is misspelt."""
    names = [cluster.name for cluster in clusters]
    if not isinstance(tags, Mapping):
        raise ClusterProblem(f"tags: not a dictionary: {tags!r}. Give the tags of each cluster by its name.")
    for name, own in tags.items():
        if name not in names:
            raise ClusterProblem(f"tags: no cluster is called {name}. Found: {', '.join(names)}.")
        if not isinstance(own, Mapping):
            raise ClusterProblem(f"tags: not a dictionary: {name}. Write, for example, {name}: {{region: eu}}.")
