# SPDX-License-Identifier: BSD-2-Clause
"""The DeepSpeed configurations that the collection provides, for programs that use the Hugging Face Trainer.

``auto`` is filled in by the Trainer from its own arguments, and only for the keys below (transformers,
integrations/deepspeed.py): so learning rate, batch size and precision are set once, on the command line.
"""

from __future__ import annotations

from typing import Any

_BATCH_AND_PRECISION: dict[str, Any] = {
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "bf16": {"enabled": "auto"},
    "fp16": {
        "enabled": "auto",
        "loss_scale": 0,
        "loss_scale_window": 1000,
        "initial_scale_power": 16,
        "hysteresis": 2,
        "min_loss_scale": 1,
    },
}

# Optimizer states and gradients are split over the GPUs. The optimizer is the Trainer's (--optim).
ZERO2: dict[str, Any] = {
    **_BATCH_AND_PRECISION,
    "zero_allow_untested_optimizer": True,
    "zero_optimization": {
        "stage": 2,
        "allgather_partitions": True,
        "allgather_bucket_size": 500_000_000,
        "reduce_scatter": True,
        "reduce_bucket_size": 500_000_000,
        "overlap_comm": True,
        "contiguous_gradients": True,
    },
}

# Parameters are split as well, and kept in the CPU's memory together with the optimizer states. Offloading works with
# DeepSpeed's own CPU Adam, which it takes when the configuration names the optimizer (zero_force_ds_cpu_optimizer).
ZERO3_OFFLOAD: dict[str, Any] = {
    **_BATCH_AND_PRECISION,
    "optimizer": {
        "type": "AdamW",
        "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"},
    },
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {"device": "cpu", "pin_memory": True},
        "offload_param": {"device": "cpu", "pin_memory": True},
        "overlap_comm": True,
        "contiguous_gradients": True,
        "sub_group_size": 1_000_000_000,
        "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto",
        "stage3_param_persistence_threshold": "auto",
        "stage3_max_live_parameters": 1_000_000_000,
        "stage3_max_reuse_distance": 1_000_000_000,
        "stage3_gather_16bit_weights_on_model_save": True,
    },
}
