# SPDX-License-Identifier: BSD-2-Clause
"""A manifest's Kubernetes objects. Pure.

A kind of job: training.py, deployments.py, notebook.py. The pod of all kinds, and which of its variables takes
precedence: pod.py, with volumes.py, security.py, scheduling.py. How the processes of a training start: launchers.py;
ray and mpi where Jobs have no successPolicy: older_launchers.py. How they find each other: distributed.py. Labels and
annotations: metadata.py. What earlier versions built: former_versions.py. Cases for tests: rules/*.yaml beside the
tests, and test_processes for real processes.
"""
