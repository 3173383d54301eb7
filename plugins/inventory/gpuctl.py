# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The inventory plugin gpuctl."""

from __future__ import annotations

DOCUMENTATION = r"""
name: gpuctl
short_description: GPU nodes of a Kubernetes cluster as inventory hosts
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Creates a host for each node with GPUs, and groups the hosts by pool, GPU type and status.
  - The groups are C(pool_<pool>), C(gpu_type_<type>) and C(status_<status>). Invalid characters are replaced by underscores, so
    the group of the pool C(training-pool) is C(pool_training_pool). Nodes without a pool are in C(pool_default).
  - C(ansible_host) is the internal address of the node. A node reports its addresses itself. Text that is neither an IP address
    nor a DNS name is ignored with a warning, and so are loopback and link-local addresses, which would be those of the controller.
  - A node is left out with a warning if its name cannot be that of a host, or is C(localhost), to which Ansible gives a meaning of
    its own.
  - Text from the cluster is never evaluated as a template.
  - C(gpuctl_pool) is the pool of the node, and C(gpuctl_labels) contains all its labels. The return values of
    M(runwhere.gpuctl.gpuctl_node_info) are available as C(gpuctl_status), C(gpuctl_gpu_total), C(gpuctl_gpu_used),
    C(gpuctl_gpu_free), C(gpuctl_gpu_type), C(gpuctl_cpu), C(gpuctl_cpu_used), C(gpuctl_memory), C(gpuctl_memory_used),
    C(gpuctl_address), C(gpuctl_created_at) and C(gpuctl_last_updated_at).
  - Sends paginated list requests for nodes and for the pods of all namespaces, and requires permission for both.
  - The name of the inventory file must be C(gpuctl.yml) or C(gpuctl.yaml), or end with C(.gpuctl.yml) or C(.gpuctl.yaml).
options:
  plugin:
    description: Name of the plugin.
    type: str
    required: true
    choices: [runwhere.gpuctl.gpuctl]
  pool:
    description: Include only nodes of this pool. V(default) selects nodes without a pool.
    type: str
  gpu_type:
    description: Include only nodes with this GPU type.
    type: str
  status:
    description:
      - Include only nodes with this status. V(active) nodes accept pods, V(maintaining) nodes are cordoned, and V(faulty) nodes
        are not ready.
    type: str
    choices: [active, maintaining, faulty]
  all_nodes:
    description:
      - Whether to include nodes without GPUs.
      - A node has GPUs if it offers whole or shared GPUs to pods, or if a label specifies their type. A node with a failed driver
        is therefore still included.
    type: bool
    default: false
requirements:
  - kubernetes >= 31.0.0
notes:
  - String options can be templates, such as C({{ lookup('ansible.builtin.file', '/run/secrets/token'\) }}), and can be encrypted
    with Ansible Vault.
  - Cached data is specific to the inventory file, the connection and the filters. The cache does not contain credentials.
seealso:
  - module: runwhere.gpuctl.gpuctl_node_info
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - ansible.builtin.constructed
  - ansible.builtin.inventory_cache
"""

EXAMPLES = r"""
---
# All GPU nodes of the cluster in K8S_AUTH_KUBECONFIG or the default kubeconfig. Save this as nodes.gpuctl.yml.
plugin: runwhere.gpuctl.gpuctl

---
# One pool of a specific cluster, cached for ten minutes
plugin: runwhere.gpuctl.gpuctl
kubeconfig: /etc/gpuctl/kubeconfig
context: gpu-cluster
pool: training-pool
cache: true
cache_plugin: ansible.builtin.jsonfile
cache_connection: ~/.cache/gpuctl
cache_timeout: 600

---
# Additional groups and variables. With strict, errors in expressions are reported.
plugin: runwhere.gpuctl.gpuctl
strict: true
compose:
  ansible_user: "'root'"
  gpuctl_rack: gpuctl_labels['topology.kubernetes.io/zone'] | default('unknown')
groups:
  idle: gpuctl_gpu_used == 0 and gpuctl_status == 'active'
  full: gpuctl_gpu_free == 0
keyed_groups:
  - key: gpuctl_labels['nvidia.com/cuda.driver.major'] | default('')
    prefix: driver
    default_value: unknown
"""

from collections.abc import Mapping
from hashlib import sha256
from json import dumps
from typing import TYPE_CHECKING, Any

from ansible import constants as C
from ansible.errors import AnsibleParserError
from ansible.plugins.inventory import BaseInventoryPlugin, Cacheable, Constructable
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.host_address import (
    is_dns_name,
    is_node_address,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.nodes import Node, node_row, slim_node
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection_options import (
    connection_argument_spec,
    connection_identity,
    connection_secrets,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import KubeError
from ansible_collections.runwhere.gpuctl.plugins.module_utils.libraries import missing_library
from ansible_collections.runwhere.gpuctl.plugins.module_utils.nodes.node_info import NodeInfoOptions, select_nodes
from ansible_collections.runwhere.gpuctl.plugins.module_utils.printable import printable, printable_data
from ansible_collections.runwhere.gpuctl.plugins.module_utils.redaction import redact
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wording import worded
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.ansible_core import as_unsafe
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.variable_problems import unknown_option

if TYPE_CHECKING:
    from ansible.inventory.data import InventoryData
    from ansible.parsing.dataloader import DataLoader

FILTERS = ("pool", "gpu_type", "status")
_CACHED = 3  # The first version cached addresses as the nodes reported them, the second no accelerators.


class InventoryModule(BaseInventoryPlugin, Constructable, Cacheable):  # type: ignore[misc]  # ansible is not typed
    NAME = "runwhere.gpuctl.gpuctl"

    def verify_file(self, path: str) -> bool:
        name = path.rpartition("/")[2]
        is_inventory = name in ("gpuctl.yml", "gpuctl.yaml") or name.endswith((".gpuctl.yml", ".gpuctl.yaml"))
        return is_inventory and bool(super().verify_file(path))

    def parse(self, inventory: InventoryData, loader: DataLoader, path: str, cache: bool = True) -> None:
        super().parse(inventory, loader, path, cache)
        aliases = (alias for spec in connection_argument_spec().values() for alias in spec.get("aliases", ()))
        if unknown := unknown_option(self._read_config_data(path), [*self.get_options(), *aliases], self.NAME):
            raise AnsibleParserError(f"{path}: {unknown}")
        for name, variables in self._hosts(path, cache).items():
            # Names, labels and addresses are what nodes report: as templates, Ansible would evaluate them.
            self._add_host(name, as_unsafe(variables))

    def _hosts(self, path: str, may_use_cache: bool) -> dict[str, dict[str, Any]]:
        """Variables by host name, from the cache if it is enabled and may be used, else from the cluster."""
        params = {name: self.get_option(name) for name in (*connection_argument_spec(), *FILTERS, "all_nodes")}
        params = {
            # Ansible leaves templates in the options of an inventory plugin to the plugin.
            name: self.templar.template(value) if isinstance(value, str) else value
            for name, value in params.items()
        }
        if not self.get_option("cache"):
            return self._read_hosts(path, params)
        key = self.get_cache_key(path) + _cache_digest(params)
        # The argument is False with --flush-cache, and for ansible.builtin.meta refresh_inventory.
        if not may_use_cache or key not in self.cache:
            self.cache[key] = self._read_hosts(path, params)
        found: dict[str, dict[str, Any]] = self.cache[key]
        return found

    def _read_hosts(self, path: str, params: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        options = NodeInfoOptions(**{name: params[name] for name in FILTERS})
        secrets: set[str] = set()
        task = Task(options, params, False, self.display.warning, secrets.update)
        task.mask(connection_secrets(params, task.environ))
        try:
            nodes = select_nodes(task, slim_node)
        except ImportError as problem:
            raise AnsibleParserError(f"{path}: {missing_library(str(problem.name))}") from problem
        except KubeError as problem:
            raise AnsibleParserError(f"{path}: {printable(worded(str(redact(str(problem), secrets))))}") from None
        task.warn_of_malformed_objects()
        chosen = [node for node in nodes if params["all_nodes"] or node.has_gpus]
        for node in chosen:
            for each in host_problems(node):
                task.warn(f"{path}: {each}")
        return {node.name: printable_data(host_variables(node)) for node in chosen if can_be_host(node)}

    def _add_host(self, name: str, variables: Mapping[str, Any]) -> None:
        self.inventory.add_host(name)
        for variable, value in variables.items():
            self.inventory.set_variable(name, variable, value)
        for grouped_by in FILTERS:
            value = variables[f"gpuctl_{grouped_by}"]
            if value:
                # Pools and GPU types may have characters that names of groups may not (TRANSFORM_INVALID_GROUP_CHARS).
                group = self.inventory.add_group(self._sanitize_group_name(f"{grouped_by}_{value}"))
                self.inventory.add_child(group, name)
        strict = self.get_option("strict")
        self._set_composite_vars(self.get_option("compose"), variables, name, strict=strict)
        self._add_host_to_composed_groups(self.get_option("groups"), variables, name, strict=strict)
        self._add_host_to_keyed_groups(self.get_option("keyed_groups"), variables, name, strict=strict)


def can_be_host(node: Node) -> bool:
    """Whether Ansible can connect to a host of that name, and to nothing else than that node.

    A host named ``localhost`` would replace the one that plays use to run on the controller.
    """
    reached = is_node_address(node.internal_address or node.name)
    return reached and is_dns_name(node.name) and node.name not in C.LOCALHOST


def host_problems(node: Node) -> list[str]:
    """What a user should know of a node with unusable addresses or an unusable name."""
    problems = [
        f"node {node.name} reports the address {address!r}, which is no IP address or DNS name of a node. It is ignored."
        for address in node.refused_addresses
    ]
    if not can_be_host(node):
        problems.append(f"node {node.name} is left out: its name cannot be that of a host.")
    return problems


def host_variables(node: Node) -> dict[str, Any]:
    """The variables of a node's host: what gpuctl_node_info returns, with all labels."""
    row = node_row(node, node.labels)
    del row["node_name"], row["bound_pools"]  # the host's name, and gpuctl_pool
    variables = {"pool": node.pool, **row}
    address = {"ansible_host": node.internal_address} if node.internal_address else {}
    return {**address, **{f"gpuctl_{name}": value for name, value in variables.items()}}


def _cache_digest(params: Mapping[str, Any]) -> str:
    """Part of the cache key, so that the answer of one cluster or filter is never used for another."""
    source = {
        "content": _CACHED,
        **connection_identity(params),
        **{name: params[name] for name in (*FILTERS, "all_nodes")},
    }
    return sha256(dumps(source, sort_keys=True, default=str).encode()).hexdigest()[:16]
