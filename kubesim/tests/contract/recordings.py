# SPDX-License-Identifier: BSD-2-Clause
"""The recordings as files: JSON, compressed, NAME.json.gz. As a program, in kubesim/tests:

python -m contract.recordings show NAME [STEP…]   print one to read, or some of its steps by their numbers
python -m contract.recordings unpack NAME…        write NAME.json, to change it; it counts until it is packed
python -m contract.recordings pack NAME…          write NAME.json.gz of it, and remove NAME.json
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
WIDTH = 140
Object = dict[str, Any]


def names() -> list[str]:
    return sorted({path.name.partition(".")[0] for path in (*FOLDER.glob("*.json.gz"), *FOLDER.glob("*.json"))})


def load(name: str) -> Object:
    plain = FOLDER / f"{name}.json"
    loaded: Object = json.loads(plain.read_bytes() if plain.exists() else gzip.decompress(packed(name).read_bytes()))
    return loaded


def save(name: str, recording: Object) -> None:
    """Write it packed, without the time of day: what has not changed gives no diff."""
    packed(name).write_bytes(gzip.compress(f"{text(recording)}\n".encode(), mtime=0))
    (FOLDER / f"{name}.json").unlink(missing_ok=True)


def packed(name: str) -> Path:
    return FOLDER / f"{name}.json.gz"


def text(value: Any, depth: int = 0) -> str:
    """JSON as a reader wants it: one line for what fits into WIDTH."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or depth + len(line) <= WIDTH:
        return line
    inner, outer = " " * (depth + 1), " " * depth
    if isinstance(value, list):
        return "[\n" + ",\n".join(inner + text(each, depth + 1) for each in value) + f"\n{outer}]"
    entries = (f"{inner}{json.dumps(key)}: {text(each, depth + 1)}" for key, each in value.items())
    return "{\n" + ",\n".join(entries) + f"\n{outer}}}"


def show(name: str, *steps: str) -> None:
    recording = load(name)
    for shown in [recording["steps"][int(step)] for step in steps] or [recording]:
        print(text(shown))


def unpack(*names: str) -> None:
    for name in names:
        (FOLDER / f"{name}.json").write_text(f"{text(load(name))}\n")


def pack(*names: str) -> None:
    for name in names:
        save(name, load(name))


if __name__ == "__main__":
    commands = {"show": show, "unpack": unpack, "pack": pack}
    if len(sys.argv) < 3 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])
