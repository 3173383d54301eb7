#!/usr/bin/python
# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
---
module: gpuctl_rbac
short_description: Grant a service account, user or group the permissions that this collection needs
version_added: 1.0.0
author: runwhere.gpuctl contributors (@runwhere)
description:
  - Grants a service account, user or group the permissions to use the modules of this collection, at one of three levels.
  - The permissions of a level are defined in ClusterRoles, which the module creates or updates. These are C(gpuctl-read) with
    C(gpuctl-logs), C(gpuctl-submit) with C(gpuctl-submit-cluster) and C(gpuctl-submit-pools), and C(gpuctl-administer) with
    C(gpuctl-administer-jobs) and C(gpuctl-administer-pools), and C(gpuctl-exec) for O(exec). A ClusterRoleBinding and RoleBindings grant them to the account.
  - RBAC has no exceptions for single namespaces. What reads logs or writes workloads is therefore never granted in the whole
    cluster, but in each namespace except C(kube-*) and C(gpuctl-system). M(runwhere.gpuctl.gpuctl_quota) grants it in
    namespaces that it creates. After you create a namespace in another way, run this module again for accounts with
    O(level=administer) or O(level=read) for the whole cluster.
  - The account gets exactly the level and the namespaces of the task. Permissions that an earlier task granted are revoked,
    unless O(append=true). Bindings that this module did not create are not changed.
  - After writing, the module reads the permissions again. If another task has changed them at the same time, it applies its own
    level again, with a warning, so that two tasks never leave a mixture of both.
  - A missing service account is created, and so is its namespace if that is C(gpuctl-system). An existing account that this
    module did not create, such as the one of an AWX container group, only gets the bindings.
  - Kubernetes only allows you to grant permissions that you have. An account with the level V(administer) can grant all levels,
    but not write the ClusterRoles. Run this module as a cluster administrator first, with O(level=administer), which writes
    those of all levels, and again after an upgrade of the collection.
  - An account that can create pods in a namespace can run them as any service account of that namespace. The task fails if an account
    could submit jobs where the account of another level, or of other namespaces, is. Keep accounts in C(gpuctl-system).
  - With O(level=submit) and O(level=administer), the module also creates the PriorityClasses of jobs, and recreates those
    whose values are wrong. Pods that exist keep their priority.
options:
  state:
    description:
      - V(present) grants the permissions of O(level) and, without O(append), revokes all others that this module granted.
      - V(absent) revokes all of them, and deletes the account if this module created it. The ClusterRoles are kept.
    type: str
    choices: [present, absent]
    default: present
  kind:
    description:
      - What O(name) is the name of. Users and groups are those that the authentication of the API server gives, such as OpenID Connect
        or client certificates. Kubernetes has no objects for them, so that their names cannot be checked.
    type: str
    choices: [service_account, user, group]
    default: service_account
    version_added: 1.1.0
  name:
    description: Name of the service account, user or group.
    type: str
    required: true
  namespace:
    description: Namespace of the service account. Ignored for users and groups.
    type: str
    default: gpuctl-system
  level:
    description:
      - V(read) allows the info modules, M(runwhere.gpuctl.gpuctl_doctor) and reading logs, except those in C(kube-*) and C(gpuctl-system).
      - V(submit) allows managing jobs in O(namespaces), and reading their status and logs. In the whole cluster, it allows
        listing nodes and PriorityClasses. What depends on pods in other namespaces, such as the number of free GPUs, is not
        known at this level.
      - V(administer) allows all modules except M(runwhere.gpuctl.gpuctl_copy) in the whole cluster, but jobs and logs only outside of C(kube-*) and
        C(gpuctl-system). It can bind accounts to the roles of this collection, and to no others. With O(namespaces), it allows
        this only there, which includes quotas and workspaces of these namespaces, but no nodes and pools.
      - None of the levels grants access to Secrets by itself, except that V(administer) can create Secrets in namespaces of jobs, and
        read and change those called C(gpuctl-registry) and C(gpuctl-tokens). The pods of a job can read all Secrets of its namespace.
      - Required if O(state=present).
    type: str
    choices: [read, submit, administer]
  namespaces:
    description:
      - Namespaces in which the permissions apply. They must exist. With O(level=submit), C(kube-*) and C(gpuctl-system) are not
        allowed.
      - Required if O(level=submit). With O(level=read) and O(level=administer), the default is the whole cluster.
      - Nodes and pools are cluster-wide, so these levels with namespaces do not include them. The declarations of pools are in
        C(gpuctl-system).
    type: list
    elements: str
  exec:
    description:
      - Whether the account may also run commands in the containers of O(namespaces), which M(runwhere.gpuctl.gpuctl_copy) needs to
        copy files to and from jobs. None of the levels includes it.
      - An account that can run commands in a container can read what its job can, such as the files of its claims and the values of its
        Secrets. Only with O(level=submit), whose account can read them by a job of its own.
    type: bool
    default: false
    version_added: 1.2.0
  append:
    description:
      - Whether the account keeps the levels and namespaces that earlier tasks granted, and gets those of this task in addition. So an
        account that submits jobs to one namespace can read another one.
      - Messages about missing permissions suggest it, because they do not know what else an account has.
      - A later task without it leaves the account only its own level and namespaces again.
    type: bool
    default: false
    version_added: 1.2.0
notes:
  - The module does not return a token. M(runwhere.gpuctl.gpuctl_kubeconfig) writes one into a kubeconfig. To create one for
    O(api_key) or for an AWX credential of the type "OpenShift or Kubernetes API Bearer Token", run
    C(kubectl create token <name> -n gpuctl-system --duration 8760h).
seealso:
  - module: runwhere.gpuctl.gpuctl_kubeconfig
    description: Write a kubeconfig for the account.
  - module: runwhere.gpuctl.gpuctl_quota
    description: Create and limit the namespaces of users.
  - name: Using RBAC Authorization
    description: Roles and bindings in Kubernetes.
    link: https://kubernetes.io/docs/reference/access-authn-authz/rbac/
extends_documentation_fragment:
  - runwhere.gpuctl.connection
  - runwhere.gpuctl.attributes
  - runwhere.gpuctl.attributes.write_module
  - runwhere.gpuctl.attributes.actiongroup_gpuctl
"""

EXAMPLES = r"""
---
- name: Allow AWX to submit jobs to the namespaces of two teams
  runwhere.gpuctl.gpuctl_rbac:
    name: awx-submit
    level: submit
    namespaces: [team-a, team-b]

- name: Allow a dashboard to read the whole cluster
  runwhere.gpuctl.gpuctl_rbac:
    name: dashboard
    level: read

- name: Allow the pods of an AWX container group to administer pools and quotas
  runwhere.gpuctl.gpuctl_rbac:
    name: default
    namespace: awx
    level: administer

- name: Allow a group of the identity provider to submit jobs
  runwhere.gpuctl.gpuctl_rbac:
    kind: group
    name: ml-team-a
    level: submit
    namespaces: [team-a]

- name: Allow a colleague to submit jobs, and to copy files to and from them
  runwhere.gpuctl.gpuctl_rbac:
    kind: user
    name: alice@example.com
    level: submit
    namespaces: [alice]
    exec: true

- name: Let an account that submits jobs elsewhere read the jobs of another team, too
  runwhere.gpuctl.gpuctl_rbac:
    name: awx-submit
    level: read
    namespaces: [team-c]
    append: true

- name: Revoke all permissions
  runwhere.gpuctl.gpuctl_rbac:
    name: awx-submit
    state: absent
"""

RETURN = r"""
results:
  description: One entry for the account.
  returned: success
  type: list
  elements: dict
  contains:
    name:
      description: Name of the service account, user or group.
      type: str
    namespace:
      description: Namespace of the service account. V(none) for users and groups.
      type: str
    kind:
      description: What it is the name of, as in O(kind).
      type: str
      version_added: 1.1.0
    user:
      description: Kubernetes user name. V(none) for a group.
      type: str
      sample: system:serviceaccount:gpuctl-system:awx-submit
    level:
      description: Level of the account. V(none) with O(state=absent).
      type: str
    namespaces:
      description: Namespaces in which the permissions apply. V(none) for the whole cluster, and with O(state=absent).
      type: list
      elements: str
    revoked_namespaces:
      description: With O(state=absent), namespaces in which the account could create and change jobs.
      type: list
      elements: str
      version_added: 1.2.0
    action:
      description:
        - The change that was made, or would be made in check mode. One of V(create), V(update), V(unchanged) and V(delete).
      type: str
    resources:
      description: Kubernetes objects that grant the permissions.
      type: list
      elements: dict
      contains:
        api_version:
          description: API version of the object.
          type: str
        kind:
          description: Kind of the object.
          type: str
        name:
          description: Name of the object.
          type: str
        action:
          description: The change to the object, as in RV(results[].action).
          type: str
        changes:
          description: Paths of the changed fields.
          type: list
          elements: str
msg:
  description: Summary of the changes.
  returned: success
  type: str
  sample: "system:serviceaccount:gpuctl-system:awx-submit: create"
"""

from ansible_collections.runwhere.gpuctl.plugins.module_utils._process import GpuctlModule, run_module
from ansible_collections.runwhere.gpuctl.plugins.module_utils.rbac.rbac import MODULE


def main() -> None:
    run_module(GpuctlModule(**MODULE.arguments(), supports_check_mode=True), MODULE)


if __name__ == "__main__":
    main()
