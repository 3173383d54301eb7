# SPDX-License-Identifier: BSD-2-Clause
"""Write plugins/module_utils/accelerators/profiles.py from accelerators/*.yml.

    python -m tools.generate_profiles

Module processes get no other files than Python modules, and reading YAML takes longer than most tasks.
"""

from __future__ import annotations

import pprint
import sys
import textwrap
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".cache" / "collections"))

from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load_profiles  # noqa: E402

PROFILES = ROOT / "accelerators"
MODULE = ROOT / "plugins" / "module_utils" / "accelerators" / "profiles.py"
HEAD = '''# SPDX-License-Identifier: BSD-2-Clause
"""The built-in profiles of accelerators. Written by tools/generate_profiles.py from accelerators/*.yml: edit those."""

from __future__ import annotations

from typing import Any

# fmt: off
'''


def profiles() -> dict[str, dict[str, Any]]:
    """The fields of all profiles by name; the default one first."""
    files = sorted(PROFILES.glob("*.yml"), key=lambda file: (file.stem != "nvidia", file.stem))
    return load_profiles((file.name, file.read_text(encoding="utf-8")) for file in files)


def module() -> str:
    """The text of the module."""
    text = textwrap.indent(pprint.pformat(profiles(), width=114, compact=True, sort_dicts=False), "    ")
    return f"{HEAD}PROFILES: dict[str, dict[str, Any]] = \\\n{text}\n"


if __name__ == "__main__":
    MODULE.write_text(module(), encoding="utf-8")
