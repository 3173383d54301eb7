# Copyright (c) 2026, runwhere.gpuctl contributors
# SPDX-License-Identifier: BSD-2-Clause
"""pydantic, or stand-ins with which the models can be defined (never used) where it is not installed.

Ansible imports module_utils without their requirements (`ansible-test sanity --test import`) and wants a module to
say which library is missing (`missing_required_lib`), so an ImportError must not escape here.
"""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

IMPORT_ERROR: str | None = None
"""The traceback of the failed import of pydantic, for `fail_json(exception=…)`; None when it is there."""

if TYPE_CHECKING:
    from pydantic import (
        AfterValidator,
        BaseModel,
        BeforeValidator,
        ConfigDict,
        Field,
        ValidationError,
        model_validator,
    )
    from pydantic_core import PydanticCustomError
else:
    try:
        from pydantic import (
            AfterValidator,
            BaseModel,
            BeforeValidator,
            ConfigDict,
            Field,
            ValidationError,
            model_validator,
        )
        from pydantic_core import PydanticCustomError
    except ImportError:
        IMPORT_ERROR = traceback.format_exc()

        class BaseModel:
            pass

        class ValidationError(ValueError):
            pass

        class PydanticCustomError(ValueError):
            pass

        def _nothing(*args: Any, **kwargs: Any) -> None:
            return None

        def model_validator(**kwargs: Any) -> Any:
            return lambda function: function

        AfterValidator = BeforeValidator = ConfigDict = Field = _nothing

__all__ = [
    "IMPORT_ERROR",
    "AfterValidator",
    "BaseModel",
    "BeforeValidator",
    "ConfigDict",
    "Field",
    "PydanticCustomError",
    "ValidationError",
    "model_validator",
]
