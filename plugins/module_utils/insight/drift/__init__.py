# SPDX-License-Identifier: BSD-2-Clause
"""What differs between a directory and a cluster, and who changed it.

Which field, by whom and when: field_holders.py, drift_rows.py. What is compared: drift.py. Fields that are restored:
restore.py.
"""
