# SPDX-License-Identifier: BSD-2-Clause
"""Whether the command listens on the port that is published, as far as its options say."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .job_models import Compute, Inference, Notebook

# vLLM, SGLang, llama-server, TGI, uvicorn, redis …; Jupyter, Streamlit, Gradio, Triton; gunicorn, code-server.
_OPTIONS = (
    r"--(?:(?:\w+App|server|http)[._-])?port[=\s]+['\"]?(?P<port>\d{1,5})",
    r"(?:-b|--bind(?:-addr)?)[=\s]+['\"]?[\w.*:\[\]-]*:(?P<bound>\d{1,5})",
)
_OPTION = re.compile(rf"(?<![^\s'\"])(?:{'|'.join(_OPTIONS)})(?=$|[\s'\"])")


def port_mistake(manifest: Inference | Notebook | Compute) -> str | None:
    """The warning for a command that names ports, but not that of the Service; None if there is none."""
    words = " ".join([*manifest.environment.command, *manifest.environment.args])
    found = {int(option["port"] or option["bound"]): option[0] for option in _OPTION.finditer(words)}
    port = manifest.service.port
    if not found or port in found:
        return None
    option = next(iter(found.values()))
    return (
        f"service.port is {port}, but the command has {option}. If the server listens there, set service.port to "
        f"that port. Otherwise, nothing answers at access_urls."
    )
