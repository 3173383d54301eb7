# SPDX-License-Identifier: BSD-2-Clause
"""Accounts and namespaces: kubeconfigs, workspaces, policies as tasks, what an account may do.

A file for a colleague: account_kubeconfig.py, kubeconfig_file.py (its contents). What a namespace gets:
workspace_objects.py. A new question about an account: access_info.py. Worker clusters of Kueue: multikueue.py.
"""
