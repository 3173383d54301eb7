# SPDX-License-Identifier: BSD-2-Clause
"""Server-side apply, as sigs.k8s.io/structured-merge-diff and apimachinery pkg/util/managedfields do it."""
