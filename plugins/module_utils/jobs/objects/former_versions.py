# SPDX-License-Identifier: BSD-2-Clause
"""What versions before this one built otherwise from the same manifest. What runs since then is left as it is."""

from __future__ import annotations

from ...engine.later_defaults import LaterDefault, LaterDefaults
from ...labels import MAIN_CONTAINER

_POD = ("spec", "template", "spec")
_MAIN = (*_POD, "containers", (("name", MAIN_CONTAINER),))
_FAILURE_RULES = [
    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
    {
        "action": "FailJob",
        "onExitCodes": {"containerName": MAIN_CONTAINER, "operator": "In", "values": [2, 126, 127]},
    },
]

_SINCE_1_1 = (
    LaterDefault("StatefulSet", (*_MAIN, "readinessProbe")),
    LaterDefault("Job", (*_POD, "topologySpreadConstraints")),
    LaterDefault("Job", ("spec", "podFailurePolicy", "rules"), _FAILURE_RULES),
    *(
        LaterDefault(kind, path)
        for kind in ("Job", "Deployment", "StatefulSet")
        for path in (
            (*_POD, "automountServiceAccountToken"),
            (*_POD, "securityContext", "seccompProfile"),
            # All of it: without its only field, an empty one would be left, and restart pods.
            (*_MAIN, "securityContext"),
        )
    ),
)
_SINCE_1_2 = tuple(LaterDefault("Job", ("spec", name)) for name in ("backoffLimitPerIndex", "maxFailedIndexes"))
LATER_DEFAULTS = {"1.1": _SINCE_1_1, "1.2": _SINCE_1_2}


def later_defaults(former_commands: tuple[tuple[str, list[str]], ...]) -> LaterDefaults:
    """Those of a job. ``former_commands`` are what its pods ran (see Built)."""
    commands = {version: [LaterDefault("Job", (*_MAIN, "command"), command)] for version, command in former_commands}
    return {version: (*defaults, *commands.get(version, ())) for version, defaults in LATER_DEFAULTS.items()}
