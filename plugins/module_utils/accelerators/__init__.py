# SPDX-License-Identifier: BSD-2-Clause
"""What vendors' devices are called, and how jobs request them.

A vendor, a model or a resource: accelerators/*.yml at the top of the repository, then `make schemas` (profiles.py). How
a resource is recognized: catalog.py. What a container requests: equipment.py. Conditions on devices:
device_selectors.py.
"""
