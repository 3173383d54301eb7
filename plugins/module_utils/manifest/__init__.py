# SPDX-License-Identifier: BSD-2-Clause
"""From YAML to validated models, or to every error at once.

A field: job_blocks.py, or the _model.py of its kind. A rule for a type: rules.py. What is valid but probably a mistake:
mistakes.py. A spelling: spelling.py. Several documents together: validation.py. Secrets: secrets.py. What
makes two manifests the same run: digest.py.
"""
