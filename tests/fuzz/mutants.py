# SPDX-License-Identifier: BSD-2-Clause
"""Real manifests, damaged: trees with parts moved, doubled or replaced, and texts with bytes changed."""

from __future__ import annotations

import copy
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.kinds import KINDS
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.manifest_blocks import Block
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.spelling import (
    BlockOf,
    Key,
    MapOf,
    Scalar,
    keys_of,
)
from outside_packages import imported

ROOT = Path(__file__).resolve().parents[2]
_TABLES = ROOT / "tests" / "unit" / "plugins" / "module_utils" / "manifest"

# Values at the edges of what YAML, the models and Kubernetes take.
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 63, 64, 253, 7500, 7501, 65535, 65536, 100_001, 604_800, 2**31 - 1, 2**31, 2**63,
    0.5, 1e30, "", " ", "0", "1", "-1", "+1", "010", "1:30", "0x10", "1_000", "1e3", "1E3", "1e30", "1e-3", "0.0001m",
    "1n", "1000m", "1001m", "0.1", ".5", "5.", "1Gi", "1gi", "1GB", "1024Mi", "1073741824", "8Ei", "7Ei", "1E",
    "999999999999999999", "9223372036854775807", "9223372036854775808", "9" * 64, "1Ki", "100%", "80%", "true", "yes",
    "No", "null", "~", "a", "A", "a" * 52, "a" * 53, "a" * 63, "a" * 64, "a" * 253, "a" * 254, "x" * 300, "a.b",
    "a-b", "-a", "a-", "a_b", "a b", "a/b", "a:b", "a\nb", "a\tb", "a\x00b", "\u202e", "é", "漢字", "😀", ".", "..",
    "...", "../..", "/", "//", "/.", "/..", "/a/../b", "/a//b", "/a/", "/dev/shm", "/dev/shm/", "/a:b", "/a b", "/é",
    "a" * 2000, "$(matrix.lr)", "$(matrix.)", "$$(matrix.lr)", "$(A)", "$$", "{{ lookup('pipe', 'id') }}", "default",
    "kube-system", "gpuctl-system", "high", "training", "v1", "0.1", "cpu", "gpu_utilization", "limits.cpu",
    "requests.memory", "limits.hugepages-2Mi", "limits.nvidia.com/gpu", "status.podIP", "status.hostIPs",
    "status.phase", "metadata.labels", "metadata.labels['a']", "metadata.labels['a/b/c']",
    "metadata.annotations['A/b']", "spec.host", "spec.host['a']",
    "registry.example.com:5000/a/b:tag@sha256:" + "a" * 64, "A/b", "a" * 512, [], [None], [[]], {}, {"a": {}}, [1, 2],
    ["a", "a"], {"name": "a", "key": "b"}, {"secretKeyRef": {"name": "a", "key": "b.c"}},
    {"configMapKeyRef": {"name": "a", "key": "."}}, {"fieldRef": {"fieldPath": "metadata.name"}},
    {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}},
    {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1000Ki"}}, {"lr": [1, 2]},
)  # fmt: skip

_BYTES = (
    b"", b"\t", b"\n", b" ", b":", b": ", b"- ", b"#", b"{", b"}", b"[", b"]", b"&a ", b"*a", b"!!str ", b"---\n", b"'",
    b'"', b"|", b">", b"%", b"@", b"`", b"<<: *a",
)  # fmt: skip

_SCALARS = tuple(value for value in VALUES if isinstance(value, (str, int, float)))

Tree = Any


def originals() -> list[tuple[str, str]]:
    """Name and text of the examples and of the manifests that the unit tests accept."""
    files = sorted([*(ROOT / "examples").glob("*/*.yaml"), *(ROOT / "tests/unit/fixtures").rglob("valid/*.yaml")])
    tables = imported(_TABLES / "manifest_cases.py")
    cases = [(f"accepted: {case['name']}", tables.manifest_text(case)) for case in tables.table("accepted")]
    return [(file.name, file.read_text(encoding="utf-8")) for file in files] + cases


def mutants(seed: int) -> Iterator[tuple[str, str]]:
    """The name of the original and the text of a mutant, without end; the same for the same seed."""
    rng = random.Random(seed)
    texts = originals()
    trees = [(name, [part for part in yaml.load_all(text, yaml.BaseLoader) if part]) for name, text in texts]
    parts = Parts([tree for _name, tree in trees])
    while True:
        position = rng.randrange(len(texts))
        if rng.random() < 0.2:
            yield texts[position][0], _damaged(rng, texts[position][1])
            continue
        name, tree = trees[position]
        mutant = copy.deepcopy(tree)
        for _time in range(rng.choice((1, 1, 1, 2, 3, 5))):
            mutant = rng.choice(_CHANGES)(rng, mutant, parts)
        yield name, yaml.safe_dump_all(mutant, sort_keys=False, allow_unicode=rng.random() < 0.5)


class Parts:
    """What the originals are made of: all nodes, and those below each key."""

    def __init__(self, trees: list[Tree]) -> None:
        self.all = [node for tree in trees for node in _nodes(tree)]
        self.below: dict[str, list[Tree]] = {}
        for tree in trees:
            for container, key in _places(tree):
                if isinstance(container, dict):
                    self.below.setdefault(key, []).append(container[key])

    def like(self, rng: random.Random, key: Key) -> Tree:
        """A value for a key: from an original, an example of the documentation, or any."""
        found = [part for spelling in key.spellings for part in self.below.get(spelling, ())]
        given = [*found, *key.examples, *(key.shape.choices if isinstance(key.shape, Scalar) else ())]
        if not given or (isinstance(key.shape, Scalar) and rng.random() < 0.5):
            return rng.choice(_similar(given[0] if given else "a"))
        return copy.deepcopy(rng.choice(given if rng.random() < 0.8 else VALUES))


def _damaged(rng: random.Random, text: str) -> str:
    """The text with bytes flipped, removed, doubled or inserted."""
    content = bytearray(text.encode())
    for _time in range(rng.choice((1, 1, 2, 4, 16))):
        at = rng.randrange(len(content) + 1)
        end = min(len(content), at + rng.choice((0, 1, 1, 2, 8)))
        new = rng.choice((*_BYTES, bytes(content[at:end]) * 2, bytes([rng.randrange(256)])))
        content[at:end] = new
    return content.decode("utf-8", "replace")


def _nodes(tree: Tree) -> Iterator[Tree]:
    yield tree
    for child in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _nodes(child)


def _places(tree: Tree) -> Iterator[tuple[Any, Any]]:
    """Each container with a key or position in it."""
    if isinstance(tree, (dict, list)):
        for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


def _replaced(rng: random.Random, tree: Tree, parts: Parts) -> Tree:
    """A value replaced by one that another manifest has at the same key, or by any of VALUES."""
    if places := list(_places(tree)):
        container, key = rng.choice(places)
        others = parts.below.get(key, []) if isinstance(key, str) else []
        choices = [others or VALUES, VALUES, *[_similar(container[key])] * 3]
        container[key] = copy.deepcopy(rng.choice(rng.choice(choices)))
    return tree


def _transplanted(rng: random.Random, tree: Tree, parts: Parts) -> Tree:
    """Any part of any manifest in the place of another."""
    if places := list(_places(tree)):
        container, key = rng.choice(places)
        container[key] = copy.deepcopy(rng.choice(parts.all))
        return tree
    return copy.deepcopy(rng.choice(parts.all))


def _similar(value: Tree) -> list[Any]:
    """The numbers and quantities among VALUES for one of them, the texts for another text, all for a block."""
    if isinstance(value, (dict, list)):
        return list(VALUES)
    number = re.compile(r"[+-]?[0-9.]+([eE][+-]?[0-9]+|[A-Za-z]{1,2})?")
    alike = number.fullmatch(str(value)) is not None
    return [each for each in _SCALARS if (number.fullmatch(str(each)) is not None) == alike]


def _removed(rng: random.Random, tree: Tree, parts: Parts) -> Tree:
    if places := list(_places(tree)):
        container, key = rng.choice(places)
        del container[key]
    return tree


def _renamed_or_doubled(rng: random.Random, tree: Tree, parts: Parts) -> Tree:
    if places := list(_places(tree)):
        container, key = rng.choice(places)
        if isinstance(container, list):
            container.append(copy.deepcopy(container[key]))
        else:
            container[_typo(rng, str(key))] = container.pop(key)
    return tree


def _extended(rng: random.Random, tree: Tree, parts: Parts) -> Tree:
    """A key added that its block knows."""
    blocks = [found for part in (tree if isinstance(tree, list) else [tree]) for found in _blocks(part)]
    if blocks:
        block, model = rng.choice(blocks)
        key = rng.choice(keys_of(model))
        block[rng.choice(key.spellings)] = parts.like(rng, key)
    return tree


_CHANGES = (
    _replaced,
    _replaced,
    _replaced,
    _extended,
    _extended,
    _extended,
    _transplanted,
    _removed,
    _renamed_or_doubled,
)


def _blocks(manifest: Tree) -> Iterator[tuple[dict[str, Any], type[Block]]]:
    """The blocks of a manifest with their models."""
    if isinstance(manifest, dict) and str(manifest.get("kind")) in KINDS:
        yield from _below(manifest, KINDS[str(manifest["kind"])])


def _below(value: Tree, model: type[Block]) -> Iterator[tuple[dict[str, Any], type[Block]]]:
    if not isinstance(value, dict):
        return
    yield value, model
    for key in keys_of(model):
        for inner in (value.get(spelling) for spelling in key.spellings):
            if key.block is not None:
                items = inner if isinstance(inner, list) else [inner] if isinstance(key.shape, BlockOf) else []
                items = [*items, *(inner.values() if isinstance(inner, dict) and isinstance(key.shape, MapOf) else [])]
                yield from (found for item in items for found in _below(item, key.block))


def _typo(rng: random.Random, word: str) -> str:
    at = rng.randrange(len(word) + 1)
    return rng.choice(
        (
            word[:at] + word[at + 1 :],
            word[:at] + "x" + word[at:],
            word[::-1],
            word.upper(),
            word.replace("_", "-"),
            f"{word}s",
        )
    )
