# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""Import from the archive in which Ansible sends a module, at half the price."""

from __future__ import annotations

import os
import sys
from zipimport import zipimporter


def compile_once() -> None:
    """Let Python compile what this process is still to import from archives once.

    To know where a source is, zipimport compiles it, forgets the code, and compiles it again to run it
    (https://github.com/python/cpython/issues/141276).
    """
    sys.path_hooks[:] = [_Importer if hook is zipimporter else hook for hook in sys.path_hooks]
    for path, importer in list(sys.path_importer_cache.items()):
        if isinstance(importer, zipimporter):
            del sys.path_importer_cache[path]


class _Importer(zipimporter):
    """Of archives that have sources only, as Ansible's."""

    def get_filename(self, fullname: str) -> str:
        path = os.path.join(self.archive, self.prefix, fullname.rpartition(".")[2])
        return os.path.join(path, "__init__.py") if self.is_package(fullname) else f"{path}.py"
