# SPDX-License-Identifier: BSD-2-Clause
"""The DeepSpeed configurations that jobs find mounted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

# The keys that the Hugging Face Trainer fills in (transformers, HfTrainerDeepSpeedConfig); DeepSpeed itself takes no
# "auto" for any of them.
FILLED_IN = {
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps",
    "gradient_clipping",
    "bf16.enabled",
    "fp16.enabled",
    "optimizer.params.lr",
    "optimizer.params.betas",
    "optimizer.params.eps",
    "optimizer.params.weight_decay",
    "zero_optimization.reduce_bucket_size",
    "zero_optimization.stage3_prefetch_bucket_size",
    "zero_optimization.stage3_param_persistence_threshold",
}


@pytest.fixture(params=["ds_config.json", "zero3_config.json"])
def template(request: pytest.FixtureRequest, build_job: Any) -> tuple[str, dict[str, Any]]:
    built = build_job({"environment": {"command": ["python", "t.py", "--deepspeed", request.param]}})
    (config_map,) = built.dependents
    assert list(config_map["data"]) == [request.param]
    return request.param, json.loads(config_map["data"][request.param])


def test_auto_is_only_used_where_the_trainer_fills_it_in(template: tuple[str, dict[str, Any]]) -> None:
    assert {path for path, value in leaves(template[1]) if value == "auto"} <= FILLED_IN


def test_batch_size_and_precision_come_from_the_command_line(template: tuple[str, dict[str, Any]]) -> None:
    assert {"train_batch_size", "train_micro_batch_size_per_gpu", "bf16.enabled", "fp16.enabled"} <= {
        path for path, value in leaves(template[1]) if value == "auto"
    }


def test_the_name_says_the_stage(template: tuple[str, dict[str, Any]]) -> None:
    name, config = template
    zero = config["zero_optimization"]
    offloaded = {"device": "cpu", "pin_memory": True}
    if name == "ds_config.json":
        assert (zero["stage"], "offload_optimizer" in zero, "optimizer" in config) == (2, False, False)
    else:
        assert (zero["stage"], zero["offload_optimizer"], zero["offload_param"]) == (3, offloaded, offloaded)
        assert config["optimizer"]["type"] == "AdamW", "offloading without a named optimizer is refused by DeepSpeed"


def leaves(config: dict[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in config.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{path}{key}.")
        else:
            yield f"{path}{key}", value
