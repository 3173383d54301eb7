# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""DeepSpeed configurations: the user names one of ours and writes none."""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from ...manifest.models import Training
from . import metadata
from .deepspeed_templates import ZERO2, ZERO3_OFFLOAD
from .job_objects import Object
from .pod import Provided
from .volumes import Volume, files

DIRECTORY = "/etc/gpuctl/deepspeed"
VARIABLE = "DEEPSPEED_CONFIG_FILE"
_TEMPLATES: dict[str, dict[str, Any]] = {"ds_config.json": ZERO2, "zero3_config.json": ZERO3_OFFLOAD}
_BY_STAGE = {"zero2": "ds_config.json", "zero3": "zero3_config.json"}
# The option of transformers and LLaMA-Factory, DeepSpeed's own, accelerate's.
_OPTION = r"--deepspeed(?:[_-]config(?:_file)?)?"
_NAME = "|".join(re.escape(name) for name in _TEMPLATES)
# In one word: `--deepspeed=ds_config.json`, or a line for a shell that says it either way.
_MENTION = re.compile(rf"(?<![^\s'\"])({_OPTION}(?:=|\s+))({_NAME})(?![\w./-])")


class Configured(NamedTuple):
    """The words of command and args with our configurations put in, and the names of those that are used."""

    words: list[str]
    names: tuple[str, ...]
    provided: Provided
    warnings: list[str]


def configured(manifest: Training, words: list[str]) -> Configured:
    """Point ``--deepspeed ds_config.json`` at the mounted template of that name.

    Only a bare name that is one of ours: a path is the user's own file. ``distributed.deepspeed`` provides a template
    as well and names it in $DEEPSPEED_CONFIG_FILE; the command is the user's, so no option is added to it.
    """
    pointed = [_pointed(word, previous) for previous, word in zip(["", *words], words, strict=False)]
    names = [name for name in _TEMPLATES if any(_path(name) in word for word in pointed)]
    stage = manifest.distributed.deepspeed
    if stage is None:
        return Configured(pointed, tuple(names), {}, [])
    chosen = _BY_STAGE[stage]
    mentioned = any(path in word for word in pointed for path in (_path(chosen), VARIABLE))
    return Configured(
        pointed,
        tuple(dict.fromkeys([*names, chosen])),
        {VARIABLE: _path(chosen)},
        [] if mentioned else [_unused(stage, chosen)],
    )


def deepspeed_config_map(manifest: Training, names: tuple[str, ...], namespace: str) -> Object:
    """The templates that the training uses."""
    contents = {name: json.dumps(_TEMPLATES[name], indent=2) + "\n" for name in names}
    return metadata.config_map(manifest, namespace, _config_map_name(manifest), contents)


def volume(manifest: Training) -> Volume:
    """The templates where the arguments point to."""
    return files("deepspeed", _config_map_name(manifest), DIRECTORY)


def _pointed(word: str, previous: str) -> str:
    if re.fullmatch(_OPTION, previous) and word in _TEMPLATES:
        return _path(word)
    return _MENTION.sub(lambda mention: mention[1] + _path(mention[2]), word)


def _path(name: str) -> str:
    return f"{DIRECTORY}/{name}"


def _unused(stage: str, name: str) -> str:
    return (
        f"distributed.deepspeed is {stage}, but the command does not use it. Add --deepspeed {name} to the command, "
        f"or let the program read the file that ${VARIABLE} names."
    )


def _config_map_name(manifest: Training) -> str:
    return f"{manifest.job.name}-deepspeed"
