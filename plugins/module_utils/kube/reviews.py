# SPDX-License-Identifier: BSD-2-Clause
"""Who the account is, as the API server says."""

from __future__ import annotations

from typing import Any

from .answer import Expected
from .client import Client
from .errors import ApiError
from .resources import SELF_SUBJECT_REVIEW, Resource

_USER_NAME = "user name"


def user_name(client: Client) -> str | None:
    """The user that the server takes the client for. Servers before Kubernetes 1.28 do not say: None."""
    if _USER_NAME not in client.remembered:
        try:
            client.remembered[_USER_NAME] = str(review(client, SELF_SUBJECT_REVIEW)["status"]["userInfo"]["username"])
        except (KeyError, TypeError):
            return None
        except ApiError as error:
            if not error.is_forbidden and error.status != 404:
                raise
            return None
    return str(client.remembered[_USER_NAME])


def review(client: Client, resource: Resource, spec: dict[str, Any] | None = None) -> dict[str, Any]:
    """The review with its answer: the server keeps nothing of it."""
    body = {"apiVersion": resource.api_version, "kind": resource.kind, **({"spec": spec} if spec else {})}
    return client.transport.request("POST", resource.path(), Expected(resource.kind), body=body)
