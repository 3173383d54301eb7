# SPDX-License-Identifier: BSD-2-Clause
"""A manifest's Kubernetes objects. Pure.

A kind of job: training.py, deployments.py, notebook.py. The pod of all kinds: pod.py, with volumes.py, security.py,
scheduling.py. How processes start: launchers.py, distributed.py. Labels and annotations: metadata.py. What earlier
versions built: former_versions.py. Cases for tests: rules/*.yaml beside the tests.
"""
