# SPDX-License-Identifier: BSD-2-Clause
"""What jobs asked for and did not use, and what to write into their manifests instead.

The rules: advice_rules.py. What Prometheus has of pods: job_evidence.py. What is read and returned: advice_info.py.
Where a manifest has the value: manifest_patch.py.
"""
