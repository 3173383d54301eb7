# SPDX-License-Identifier: BSD-2-Clause
"""Write plugins/module_utils/accelerators/profiles.py from accelerators/*.yml.

    python -m tools.generate_profiles

Module processes get no other files than Python modules, and reading YAML takes longer than most tasks.
"""

from __future__ import annotations

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
_WIDTH = 118


def profiles() -> dict[str, dict[str, Any]]:
    """The fields of all profiles by name; the default one first."""
    files = sorted(PROFILES.glob("*.yml"), key=lambda file: (file.stem != "nvidia", file.stem))
    return load_profiles((file.name, file.read_text(encoding="utf-8")) for file in files)


def module() -> str:
    """The text of the module."""
    return f"{HEAD}PROFILES: dict[str, dict[str, Any]] = {_layout(profiles(), 0, 0)}\n"


def _layout(value: Any, indent: int, before: int) -> str:
    """A value as Python, ``before`` characters into its line: on it, or in lines below that are indented by one each.

    pprint aligns what is nested below its bracket, which makes the module half as large again.
    """
    text = repr(value)
    margin = " " * (indent + 1)
    if before + len(text) < _WIDTH:
        return text
    if isinstance(value, str):
        return f"\n{margin}".join(map(repr, textwrap.wrap(value, 80, drop_whitespace=False)))
    lines = [margin]
    for name, item in value.items() if isinstance(value, dict) else (("", item) for item in value):
        key = f"{name!r}: " if name else ""
        entry = f"{key}{_layout(item, indent + 1, indent + 1 + len(key))}, "
        if lines[-1] != margin and ("\n" in entry or len(lines[-1] + entry) > _WIDTH):
            lines.append(margin)
        lines[-1] += entry
        if "\n" in entry:
            lines.append(margin)
    body = "\n".join(line.rstrip() for line in lines if line.strip())
    return f"{text[0]}\n{body.removesuffix(',')}{text[-1]}"


if __name__ == "__main__":
    MODULE.write_text(module(), encoding="utf-8")
