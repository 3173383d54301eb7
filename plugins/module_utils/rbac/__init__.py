# SPDX-License-Identifier: BSD-2-Clause
"""Access by levels. The table of permissions is ../permissions.py.

Roles and bindings: levels.py. What a task changes: rbac.py. Namespaces that come later: new_namespaces.py.
"""
