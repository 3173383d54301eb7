# SPDX-License-Identifier: BSD-2-Clause
"""pydantic, or stand-ins without it: `ansible-test sanity --test import` imports module_utils without requirements."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

IMPORT_ERROR: str | None = None
"""The traceback of the failed import of pydantic, for `fail_json(exception=…)`; None when it is there."""

try:
    from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator
    from pydantic_core import PydanticCustomError, core_schema
except ImportError:
    IMPORT_ERROR = traceback.format_exc()
    if not TYPE_CHECKING:

        def _stand_in(*args: Any, **kwargs: Any) -> None: ...

        def model_validator(**kwargs: Any) -> Any:
            return lambda function: function

        AfterValidator = ConfigDict = Field = _stand_in
        BaseModel = type("BaseModel", (), {"model_construct": _stand_in, "model_rebuild": _stand_in})
        ValidationError, PydanticCustomError, core_schema = ValueError, ValueError, None

__all__ = [
    "AfterValidator",
    "BaseModel",
    "ConfigDict",
    "Field",
    "PydanticCustomError",
    "ValidationError",
    "core_schema",
    "model_validator",
]
