# SPDX-License-Identifier: BSD-2-Clause
"""What nearly every run of ansible-core imports, for the process whose forks are such runs (forked_tools.py).

The collection is imported as ansible-core does it, by its own finder of collections. Each run installs that again.
"""

from __future__ import annotations

import gc
from importlib import import_module
from pathlib import Path

from ansible.plugins.loader import init_plugin_loader
from ansible.utils.collection_loader._collection_finder import _AnsibleCollectionFinder

from .forked_tools import TOOLS

PLUGINS = Path(__file__).parents[2] / "plugins"
_LATE = ("ansible.plugins.callback.default", "ansible.plugins.connection.local", "ansible.plugins.strategy.linear")


def import_collection() -> None:
    init_plugin_loader()
    for folder in ("module_utils", "plugin_utils", "action"):
        for path in sorted((PLUGINS / folder).rglob("*.py")):
            name = ".".join(path.relative_to(PLUGINS).with_suffix("").parts)
            import_module(f"ansible_collections.runwhere.gpuctl.plugins.{name}")
    _AnsibleCollectionFinder._remove()


for module in (*TOOLS.values(), "pydantic", *_LATE):
    import_module(module)
import_collection()
gc.collect()
gc.freeze()  # Forks that collect garbage do not copy what was there before.
