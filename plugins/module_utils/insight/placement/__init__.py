# SPDX-License-Identifier: BSD-2-Clause
"""In which of several clusters a job is placed: the record of that in the home cluster (placement_record.py), and the
task that claims and releases it (placement.py).

Which cluster it is decides the controller (placing in plugin_utils), from what each cluster has answered.
"""
