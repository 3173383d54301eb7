# SPDX-License-Identifier: BSD-2-Clause
"""What is valid in a manifest and probably a mistake. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..quantity import parse
from ..redaction import secrets_among
from .full_width import full_width_in_value, has_quotes_only
from .kinds import Manifest, is_job, is_quota, is_service
from .ports import port_mistake
from .problems import abridged
from .reader import Loc, ParsedManifest
from .templates import TEMPLATE_HINT, unrendered
from .tree import ScalarNode

if TYPE_CHECKING:
    from .job_blocks import JobManifest

_MEBIBYTE = 1024**2
_LINE = ("command", "args")


def warn_of_mistakes(manifest: Manifest, parsed: ParsedManifest) -> None:
    """Warn of the probable mistakes in a manifest, with their places."""

    def warn(loc: Loc, text: str) -> str:
        parsed.warnings.append(f"{parsed.origin}, {parsed.location(loc).path}: {text}")
        return parsed.warnings[-1]

    for loc, amount in _amounts_of_bytes(manifest):
        if amount is not None and 0 < parse(amount).value < _MEBIBYTE:
            parsed.certain.append(warn(loc, _few_bytes(amount)))
    for loc, text in (*_mistakes(manifest), *_template_mistakes(parsed)):
        warn(loc, text)


def _mistakes(manifest: Manifest) -> Iterator[tuple[Loc, str]]:
    if is_job(manifest):
        yield from _plain_tokens(manifest)
        yield from _full_width_words(manifest)
    if is_service(manifest) and (text := port_mistake(manifest)):
        yield ("environment", "command" if manifest.environment.command else "args"), text


def _template_mistakes(parsed: ParsedManifest) -> list[tuple[Loc, str]]:
    """One sentence for all of them: they rarely come alone."""
    found = {
        loc: expression
        for loc, (_path, node) in parsed.locations.items()
        if isinstance(node, ScalarNode) and (expression := unrendered(node.text, parsed.origin))
    }
    if not found:
        return []
    verb = "is" if len(set(found.values())) == 1 else "are"
    text = f"{abridged(list(dict.fromkeys(found.values())), 3)} {verb} not filled in. {TEMPLATE_HINT}."
    return [(next(iter(found)), text)]


def _amounts_of_bytes(manifest: Manifest) -> Iterator[tuple[Loc, str | None]]:
    if is_job(manifest):
        yield ("resources", "memory"), manifest.resources.memory
        yield ("resources", "gpu_share"), manifest.resources.gpu_share
        yield ("storage", "shm"), manifest.storage.shm
    if is_quota(manifest):
        for namespace, limits in manifest.namespaces.items():
            shares = ((("clusters", cluster), share) for cluster, share in limits.clusters.items())
            for place, each in (((), limits), *shares):
                yield ("namespaces", namespace, *place, "memory"), each.memory
                yield ("namespaces", namespace, *place, "gpu_share"), each.gpu_share


def _few_bytes(amount: str) -> str:
    number = re.sub(r"[A-Za-z]+$", "", amount)
    if amount.endswith("m"):
        return f"{amount} is {number} thousandths of a byte. Write {number}Mi or {number}Gi."
    if amount == number:
        return f"{amount} is {amount} bytes. Write {amount}Gi or {amount}Mi."
    return f"{amount} is less than 1Mi. Write it in Mi or Gi."


def _plain_tokens(manifest: JobManifest) -> Iterator[tuple[Loc, str]]:
    for number, variable in enumerate(manifest.environment.env):
        if variable.value and not variable.secret and secrets_among([(variable.name, variable.value)], []):
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
