# SPDX-License-Identifier: BSD-2-Clause
"""The event source for ansible-rulebook: two looks at the cluster, compared.

An event of jobs: job_transitions.py, of nodes and quotas: cluster_transitions.py; its fields: event_rows.py. What is
watched: jobs_source.py. What outlives a restart: state_file.py. Text that Ansible must not evaluate: inert_text.py.
"""
