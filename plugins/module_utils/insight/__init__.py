# SPDX-License-Identifier: BSD-2-Clause
"""What looks further than one task: predictions, reports, history. The core never imports it.

What insight adds to a task of jobs: advised.py. The screen `status`: overview.py. Which namespaces
are listed: listed_namespaces.py.
"""
