# SPDX-License-Identifier: BSD-2-Clause
"""DeepSpeed configurations: the user names a template instead of writing one."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from ...kube.api_objects import Object
from ...manifest.job_models import Training
from . import metadata
from .deepspeed_templates import ZERO2, ZERO3_OFFLOAD
from .pod import Provided
from .volumes import Volume, config_map_files

DIRECTORY = "/etc/gpuctl/deepspeed"
VARIABLE = "DEEPSPEED_CONFIG_FILE"
_TEMPLATES: dict[str, dict[str, Any]] = {"ds_config.json": ZERO2, "zero3_config.json": ZERO3_OFFLOAD}
_BY_STAGE = {"zero2": "ds_config.json", "zero3": "zero3_config.json"}
# The option of transformers and LLaMA-Factory, DeepSpeed's own, accelerate's.
_OPTION = r"--deepspeed(?:[_-]config(?:_file)?)?"
_NAME = "|".join(re.escape(name) for name in _TEMPLATES)
# In one word: `--deepspeed=ds_config.json`, or a shell line with either form.
_MENTION = re.compile(rf"(?<![^\s'\"])({_OPTION}(?:=|\s+))({_NAME})(?![\w./-])")


class DeepSpeedUse(NamedTuple):
    """Command and args with the paths of the templates, and the names of the templates that are used."""

    words: list[str]
    names: tuple[str, ...]
    provided: Provided
    warnings: list[str]


def use_templates(manifest: Training, words: list[str]) -> DeepSpeedUse:
    """Replace the name in ``--deepspeed ds_config.json`` by the path of the mounted template.

    Only bare names are templates: a path is the user's own file. ``distributed.deepspeed`` also mounts a template, and
    names it in $DEEPSPEED_CONFIG_FILE; the command is the user's, so no option is added to it.
    """
    words_with_paths = [_with_path(word, previous) for previous, word in zip(["", *words], words, strict=False)]
    names = [name for name in _TEMPLATES if any(_path(name) in word for word in words_with_paths)]
    stage = manifest.distributed.deepspeed
    if stage is None:
        return DeepSpeedUse(words_with_paths, tuple(names), {}, [])
    chosen = _BY_STAGE[stage]
    mentioned = any(path in word for word in words_with_paths for path in (_path(chosen), VARIABLE))
    return DeepSpeedUse(
        words_with_paths,
        tuple(dict.fromkeys([*names, chosen])),
        {VARIABLE: _path(chosen)},
        [] if mentioned else [_unused_warning(stage, chosen)],
    )


def deepspeed_config_map(manifest: Training, names: tuple[str, ...], namespace: str) -> Object:
    """The ConfigMap with the templates that the training uses."""
    contents = {name: json.dumps(_TEMPLATES[name], indent=2) + "\n" for name in names}
    return metadata.config_map(manifest, namespace, _config_map_name(manifest), contents)


def volume(manifest: Training) -> Volume:
    """The mount of the templates."""
    return config_map_files("deepspeed", _config_map_name(manifest), DIRECTORY)


def _with_path(word: str, previous: str) -> str:
    if re.fullmatch(_OPTION, previous) and word in _TEMPLATES:
        return _path(word)
    return _MENTION.sub(lambda mention: mention[1] + _path(mention[2]), word)


def _path(name: str) -> str:
    return f"{DIRECTORY}/{name}"


def _unused_warning(stage: str, name: str) -> str:
    return (
        f"distributed.deepspeed is {stage}, but the command does not use it. Add --deepspeed {name} to the command, "
        f"or let the program read the file that ${VARIABLE} names."
    )


def _config_map_name(manifest: Training) -> str:
    return f"{manifest.job.name}-deepspeed"
