# SPDX-License-Identifier: BSD-2-Clause
"""The examples that we ship, and the Kubernetes objects they become: golden/<example>.yaml, to be read.

After an intended change, write them again and review the diff:
PYTHONPATH=.cache/collections .venv/bin/python tests/unit/plugins/module_utils/jobs/objects/test_examples.py
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.objects.job_objects import build
from ansible_collections.runwhere.gpuctl.plugins.module_utils.labels import JOB_TYPE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.job_blocks import JobManifest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load

HERE = Path(__file__).resolve().parent
GOLDEN = HERE / "golden"
EXAMPLES = HERE.parents[5] / "examples" / "manifests"


def objects_of(example: Path) -> list[dict[str, Any]]:
    """The objects of all jobs of an example; none for pools and quotas."""
    jobs = [document.model for document in load([str(example)]) if isinstance(document.model, JobManifest)]
    return [obj for job in jobs for obj in build(job, "default").objects]


def examples() -> dict[str, list[dict[str, Any]]]:
    """The examples with jobs, by name."""
    built = {path.stem: objects_of(path) for path in sorted(EXAMPLES.glob("*.yaml"))}
    return {name: objects for name, objects in built.items() if objects}


@pytest.mark.parametrize("golden", [pytest.param(path, id=path.stem) for path in sorted(GOLDEN.glob("*.yaml"))])
def test_an_example_becomes_these_objects(golden: Path) -> None:
    objects = objects_of(EXAMPLES / golden.name)
    assert objects == list(yaml.safe_load_all(golden.read_text(encoding="utf-8")))
    for obj in objects:
        kubernetes_validate.validate(obj, "1.36", strict=True)


def test_every_kind_has_an_example_and_every_example_its_golden_file() -> None:
    built = examples()
    assert {path.stem for path in GOLDEN.glob("*.yaml")} == set(built)
    kinds = {obj["metadata"]["labels"][JOB_TYPE] for objects in built.values() for obj in objects}
    assert kinds == {"training", "inference", "notebook", "compute"}


class _Readable(yaml.SafeDumper):
    """Texts of several lines as blocks, nothing abbreviated by anchors."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Readable.add_representer(str, _text)


def write() -> None:
    """Write all golden files; those whose example is gone go as well."""
    for path in GOLDEN.glob("*.yaml"):
        path.unlink()
    for name, objects in examples().items():
        text = yaml.dump_all(
            objects, Dumper=_Readable, sort_keys=False, allow_unicode=True, explicit_start=True, width=120
        )
        (GOLDEN / f"{name}.yaml").write_text(_licence() + text, encoding="utf-8")


def _licence() -> str:
    """The first line of this file: a golden file is under the same."""
    return Path(__file__).read_text(encoding="utf-8").partition("\n")[0] + "\n"


if __name__ == "__main__":
    write()
