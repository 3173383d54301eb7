# Copyright (c) 2026, runwhere.gpuctl contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keep the bytecode of the collection's files on disk, as Python does for every other package.

Ansible's loader for collections compiles each file again in each process (``get_code`` in
ansible/utils/collection_loader/_collection_finder.py). For a job that is 170 files, a sixth of the time that a whole
ansible-playbook takes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType

from ansible.utils.collection_loader import AnsibleCollectionConfig

_PLUGINS = __name__.removesuffix("plugin_utils.bytecode")


class _BytecodeFinder:
    """Find the files below plugins/ for Python's own loader. What it does not find is left to Ansible's."""

    def __init__(self) -> None:
        self._finders: dict[str, FileFinder] = {}

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not path or not name.startswith(_PLUGINS):
            return None
        (folder,) = path  # Ansible gives each package of a collection one.
        finder = self._finders.setdefault(folder, FileFinder(folder, (SourceFileLoader, SOURCE_SUFFIXES)))
        spec = finder.find_spec(name)
        return spec if spec and spec.loader else None


def keep_bytecode() -> None:
    """Let the imports that follow use bytecode on disk, and write it where the directory allows that.

    Python's own rules hold: bytecode older than its source is not used, and PYTHONDONTWRITEBYTECODE and
    PYTHONPYCACHEPREFIX are followed.
    """
    finder = AnsibleCollectionConfig.collection_finder
    if finder in sys.meta_path and not any(isinstance(found, _BytecodeFinder) for found in sys.meta_path):
        sys.meta_path.insert(sys.meta_path.index(finder), _BytecodeFinder())
