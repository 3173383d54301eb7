# SPDX-License-Identifier: BSD-2-Clause
"""What is valid in a manifest and probably a mistake. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..quantity import parse
from ..redaction import secrets_among
from .full_width import full_width_in_value, has_quotes_only
from .models import Compute, Inference, JobManifest, Manifest, Notebook, Quota
from .ports import port_mistake
from .reader import Loc, ParsedManifest

_MEBIBYTE = 1024**2
_LINE = ("command", "args")


def warn_of_mistakes(manifest: Manifest, parsed: ParsedManifest) -> None:
    """Warn of the probable mistakes in a manifest, with their places."""
    for loc, text in _mistakes(manifest):
        parsed.warnings.append(f"{parsed.origin}, {parsed.location(loc).path}: {text}")


def _mistakes(manifest: Manifest) -> Iterator[tuple[Loc, str]]:
    for loc, amount in _amounts_of_bytes(manifest):
        if amount is not None and 0 < parse(amount).value < _MEBIBYTE:
            yield loc, _few_bytes(amount)
    if isinstance(manifest, JobManifest):
        yield from _plain_tokens(manifest)
        yield from _full_width_words(manifest)
    if isinstance(manifest, (Inference, Notebook, Compute)) and (text := port_mistake(manifest)):
        yield ("environment", "command" if manifest.environment.command else "args"), text


def _amounts_of_bytes(manifest: Manifest) -> Iterator[tuple[Loc, str | None]]:
    if isinstance(manifest, JobManifest):
        yield ("resources", "memory"), manifest.resources.memory
        yield ("resources", "gpu_share"), manifest.resources.gpu_share
        yield ("storage", "shm"), manifest.storage.shm
    if isinstance(manifest, Quota):
        for namespace, limits in manifest.namespaces.items():
            yield ("namespaces", namespace, "memory"), limits.memory
            yield ("namespaces", namespace, "gpu_share"), limits.gpu_share


def _few_bytes(amount: str) -> str:
    number = re.sub(r"[A-Za-z]+$", "", amount)
    if amount.endswith("m"):
        return f"{amount} is {number} thousandths of a byte. Write {number}Mi or {number}Gi."
    if amount == number:
        return f"{amount} is {amount} bytes. Write {amount}Gi or {amount}Mi."
    return f"{amount} is less than 1Mi. Write it in Mi or Gi."


def _plain_tokens(manifest: JobManifest) -> Iterator[tuple[Loc, str]]:
    for number, variable in enumerate(manifest.environment.env):
        if variable.value and not variable.secret and secrets_among([("", variable.value)], []):
            yield (
                ("environment", "env", number, "value"),
                f"the value of {variable.name} looks like a token or password, in plain text for everybody who may "
                f"read the job. Keep it in a Secret and refer to it with valueFrom, or add secret: true if it may be "
                f"read.",
            )


def _full_width_words(manifest: JobManifest) -> Iterator[tuple[Loc, str]]:
    """Of the texts that may be anything: without a word of Chinese, such a character is a slip of the keyboard."""
    environment = manifest.environment
    texts: list[tuple[Loc, str | None]] = [
        (("environment", part, number), text)
        for part in _LINE
        for number, text in enumerate(getattr(environment, part))
    ]
    texts += [(("environment", "env", number, "value"), each.value) for number, each in enumerate(environment.env)]
    for loc, text in texts:
        if text and not has_quotes_only(text) and (problem := full_width_in_value(text, shown=False)):
            yield loc, f"{problem[0]}. {problem[1]}."
