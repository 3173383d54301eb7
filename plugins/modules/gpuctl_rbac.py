#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_rbac
short_description: Give a service account the rights that this collection needs
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Gives a service account the rights to use the modules of this collection, and no others. They come in three levels, to
    read, to submit jobs to certain namespaces, and to administer pools, quotas, node labels, jobs and access in the whole
    cluster.
  - The rights of a level are in a ClusterRole, C(gpuctl-read), C(gpuctl-submit) with C(gpuctl-submit-cluster), or
    C(gpuctl-administer), which is created or brought up to date. A ClusterRoleBinding or, for single namespaces,
    RoleBindings give them to the account.
  - The account has exactly what the task says. Rights that an earlier task gave it and this one does not mention are taken
    away. Rights that somebody else gave it are not touched.
  - A service account that is missing is made, and so is the namespace C(gpuctl-system) when the account is in it. An account
    that somebody else made, such as that of an AWX container group, gets the rights and stays as it is otherwise.
  - Kubernetes lets nobody grant more than they hold. An account of level V(administer) can give all three levels to others.
attributes:
  check_mode:
    support: full
    details:
      - Every write is sent as a dry run, so the server validates what would be sent. Without the right to write, the plan
        is worked out all the same and a warning says that the server did not validate it.
  diff_mode:
    support: full
    details:
      - Shows the fields that change and nothing else.
  idempotent:
    support: full
options:
  state:
    description:
      - V(present) gives the account the rights of O(level), and no others of this collection's.
      - V(absent) takes its rights away, and deletes the account if this module made it. The ClusterRoles stay.
    type: str
    choices: [present, absent]
    default: present
  name:
    description:
      - Name of the service account.
    type: str
    required: true
  namespace:
    description:
      - Namespace that the service account is in.
    type: str
    default: gpuctl-system
  level:
    description:
      - V(read) is for the info modules and for logs.
      - V(submit) is for jobs in O(namespaces), with their logs and everything that is known about them there. Beside that it
        allows listing nodes, for the addresses of services and the reasons why jobs wait, and creating the PriorityClasses
        of jobs. Reasons that need a look at the pods of other namespaces are left out.
      - V(administer) is for all modules in the whole cluster.
      - Required when O(state=present).
    type: str
    choices: [read, submit, administer]
  namespaces:
    description:
      - The namespaces in which the rights hold. They have to exist.
      - Required when O(level=submit). Without it, O(level=read) holds in the whole cluster. Not with O(level=administer).
      - Nodes and pools belong to no namespace, so who may read in some namespaces only does not see them.
    type: list
    elements: str
requirements:
  - kubernetes >= 31.0.0
  - pydantic >= 2.7
  - PyYAML >= 6.0
notes:
  - The account's token is not returned. C(kubectl create token <name> -n gpuctl-system --duration 8760h) prints one, for
    O(api_key) or an AWX credential of the type "OpenShift or Kubernetes API Bearer Token".
seealso:
  - module: runwhere.gpuctl.gpuctl_quota
    description: Makes the namespaces of users, and limits them.
  - name: Using RBAC Authorization
    description: Roles and bindings in Kubernetes.
    link: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Let AWX submit jobs to two teams' namespaces
  runwhere.gpuctl.gpuctl_rbac:
    name: awx-submit
    level: submit
    namespaces: [team-a, team-b]

- name: Let a dashboard read everything
  runwhere.gpuctl.gpuctl_rbac:
    name: dashboard
    level: read

- name: Let the pods of an AWX container group administer pools and quotas, under the account that they have
  runwhere.gpuctl.gpuctl_rbac:
    name: default
    namespace: awx
    level: administer

- name: Take it away again
  runwhere.gpuctl.gpuctl_rbac:
    name: awx-submit
    state: absent
"""

RETURN = r"""
results:
  description: One entry, for the account.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the service account.
      type: str
      sample: awx-submit
    namespace:
      description: Namespace of the service account.
      type: str
      sample: gpuctl-system
    user:
      description: The user that Kubernetes sees when the account's token is used.
      type: str
      sample: system:serviceaccount:gpuctl-system:awx-submit
    level:
      description: What the account may do now; V(none) when its rights were taken away.
      type: str
      sample: submit
    namespaces:
      description: Where; V(none) for the whole cluster, and when its rights were taken away.
      type: list
      elements: str
      sample: [team-a, team-b]
    action:
      description: What was done, or in check mode would be - V(create), V(update), V(unchanged) or V(delete).
      type: str
      sample: create
    resources:
      description: The Kubernetes objects behind it.
      type: list
      elements: dict
      contains:
        api_version:
          description: Its API version.
          type: str
          sample: rbac.authorization.k8s.io/v1
        kind:
          description: Its kind.
          type: str
          sample: RoleBinding
        name:
          description: Its name.
          type: str
          sample: "gpuctl-submit:gpuctl-system:awx-submit"
        action:
          description: What was done to it; the same words as above.
          type: str
          sample: create
        changes:
          description: The paths of the fields that changed.
          type: list
          elements: str
          sample: []
msg:
  description: Whose rights they are, and what was done.
  returned: success
  type: str
  sample: "system:serviceaccount:gpuctl-system:awx-submit: create"
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.runwhere.gpuctl.plugins.module_utils.rbac.rbac import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import run_module


def main() -> None:
    run_module(AnsibleModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
