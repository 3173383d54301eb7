# SPDX-License-Identifier: BSD-2-Clause
"""Whether a server has a feature: one request for each connection, when a task first needs to know."""

from __future__ import annotations

from .client import Client
from .discovery import server_version
from .errors import ApiError
from .features import NEWEST, Feature, Version, minor_version

_VERSION = "/version"


def lacks(client: Client, feature: Feature) -> bool:
    """Whether the server's version is older than the feature. One that does not say its version counts as new.

    A feature gate that is off is not found here, but by what the server answers.
    """
    if _VERSION not in client.remembered:
        try:
            client.remembered[_VERSION] = minor_version(server_version(client)[0]) or NEWEST
        except ApiError:
            client.remembered[_VERSION] = NEWEST
    version: Version = client.remembered[_VERSION]
    return version < feature.since
