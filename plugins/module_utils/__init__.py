# SPDX-License-Identifier: BSD-2-Clause
"""What modules run: everything below is imported by module processes and by Ansible's own process alike.

A new module: a package with its task, a `ModuleSpec` (task.py), options (options.py). A label or a name: labels.py. A
permission of a level: permissions.py. What counts as a secret: redaction.py.
"""
