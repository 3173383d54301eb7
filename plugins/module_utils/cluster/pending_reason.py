# SPDX-License-Identifier: BSD-2-Clause
"""What a reason says, why a job is not running (reason.py finds them)."""

from __future__ import annotations

from dataclasses import dataclass

SCHEDULER_SAYS = "The scheduler says: "
# The fields of manifests that name what there is not.
UNKNOWN_POOL, UNKNOWN_TYPE = "resources.pool", "resources.gpu-type"


@dataclass(frozen=True)
class PendingReason:
    """One thing that keeps a job from running. ``final``: it will not pass by itself. ``needs_user``: only a person
    can mend it, and may be about to.

    ``log`` names the pod and container whose log may explain why it ended, ``refusal`` is the server's message if it
    refuses to create pods. ``refused``: the job is wrong for the hardware, and not to be written. ``scheduler`` is what
    the scheduler counted, with which readers can verify the text. ``unknown`` is the field of the manifest that names a
    pool or GPU type without nodes. ``predicted``: predictions of a job say it as well.
    """

    text: str
    hint: str = ""
    final: bool = False
    needs_user: bool = False
    log: tuple[str, str] | None = None
    refusal: str | None = None
    needs_other_nodes: bool = False
    refused: bool = False
    scheduler: str = ""
    unknown: str = ""
    predicted: bool = False

    @property
    def sentence(self) -> str:
        """The text and the hint, for ``reason``; the words of the scheduler last, where a screen can shorten them."""
        parts = [self.text, self.hint, f"{SCHEDULER_SAYS}{self.scheduler}" if self.scheduler else ""]
        return " ".join(part.rstrip(". \n") + "." for part in parts if part)
