#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_kubeconfig
short_description: Write a kubeconfig for a service account, user or group
version_added: 1.1.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Writes a kubeconfig with which a colleague connects to the cluster of this task. Only the user that the module runs as can read
    the file.
  - For a service account, the file holds a token that expires, from the TokenRequest API. Later tasks keep the token until it is
    close to its end. The token is never returned or shown.
  - For a user or group, the file holds no credentials, because Kubernetes issues none. What its owner adds to it is kept.
  - A token cannot be revoked by itself. All tokens of an account end with the account, which M(runwhere.gpuctl.gpuctl_rbac) deletes.
options:
  state:
    description:
      - V(present) writes the file.
      - V(absent) deletes it, with O(cluster) only what it has of that. The token stays valid until it expires or the account is deleted.
      - Files that this module has not written are neither replaced nor deleted.
    type: str
    choices: [present, absent]
    default: present
  dest:
    description: Path of the file. Its directory must exist.
    type: path
    required: true
  kind:
    description: What O(name) is the name of.
    type: str
    choices: [service_account, user, group]
    default: service_account
  name:
    description: Name of the service account, user or group. A service account must exist.
    type: str
    required: true
  namespace:
    description: Namespace of the service account.
    type: str
    default: gpuctl-system
  job_namespace:
    description: Namespace of the context, which C(kubectl) uses by default.
    type: str
  cluster:
    description:
      - Name of the cluster and of its context, in a file that has several. The others in the file stay as they are, and the current
        context is the first one until its owner chooses another.
      - Without it, the file has one context, C(gpu).
    type: str
  server:
    description: URL of the API server as the colleague reaches it. The default is the URL that this task uses.
    type: str
  days:
    description: Number of days that a new token is valid, at most 3650. The API server may grant less, and the module warns then.
    type: int
    default: 30
  renew_days:
    description:
      - Number of days before its end from which a token is replaced. A token that was granted for less than twice as long is replaced
        after half of its life.
    type: int
    default: 7
notes:
  - The file has the certificate authority and the proxy of the connection, but none of its credentials.
seealso:
  - module: runwhere.gpuctl.gpuctl_rbac
    description: Create the account and grant it permissions.
  - name: TokenRequest
    description: The API that issues tokens.
    link: https://kubernetes.io/docs/reference/kubernetes-api/authentication-resources/token-request-v1/
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
attributes:
  check_mode:
    support: full
    details: Issues no token. Whether the API server would grant one is not known.
  diff_mode:
    support: full
    details: Shows the server, the user, the namespace and the end of the token.
  idempotent:
    support: full
    details: Until the token is close to its end.
"""

EXAMPLES = r"""
---
- name: Write a kubeconfig for a colleague
  runwhere.gpuctl.gpuctl_kubeconfig:
    name: alice
    dest: alice.kubeconfig
    job_namespace: alice
    days: 90

- name: Write one for a user of the company's identity provider, without credentials
  runwhere.gpuctl.gpuctl_kubeconfig:
    kind: user
    name: bob@example.com
    dest: bob.kubeconfig
    job_namespace: team-a

- name: Write one file with a context for each cluster of the inventory
  runwhere.gpuctl.gpuctl_kubeconfig:
    name: alice
    dest: alice.kubeconfig
    cluster: "{{ inventory_hostname }}"
  throttle: 1  # The contexts have the order of the inventory.

- name: Delete the file
  runwhere.gpuctl.gpuctl_kubeconfig:
    name: alice
    dest: alice.kubeconfig
    state: absent
"""

RETURN = r"""
results:
  description: One entry for the file.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the service account, user or group.
      type: str
    kind:
      description: What it is the name of, as in O(kind).
      type: str
    user:
      description: Kubernetes user name. V(none) for a group.
      type: str
      sample: system:serviceaccount:gpuctl-system:alice
    path:
      description: Path of the file.
      type: str
    action:
      description:
        - The change that was made, or would be made in check mode. One of V(create), V(update), V(unchanged) and V(delete).
      type: str
    server:
      description: URL of the API server in the file. V(none) with O(state=absent).
      type: str
    expires:
      description: When the token expires. V(none) without a token, or if it is yet to be issued.
      type: str
      sample: "2026-03-01T09:30:00Z"
    reason:
      description: When the token expires, or what the file lacks.
      type: str
msg:
  description: Summary of the change.
  returned: success
  type: str
  sample: "kubeconfig alice.kubeconfig: create"
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.access.account_kubeconfig import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
