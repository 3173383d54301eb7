# SPDX-License-Identifier: BSD-2-Clause
"""Who the account is, and what it may do, as the API server says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .answer import Expected
from .client import Client
from .errors import ApiError
from .resources import SELF_SUBJECT_ACCESS_REVIEW, SELF_SUBJECT_REVIEW, SUBJECT_ACCESS_REVIEW, Resource

_USER_NAME = "user name"


def user_name(client: Client) -> str | None:
    """The user that the server takes the client for. Servers before Kubernetes 1.28 do not say: None."""
    if _USER_NAME not in client.remembered:
        try:
            client.remembered[_USER_NAME] = str(_review(client, SELF_SUBJECT_REVIEW)["status"]["userInfo"]["username"])
        except (KeyError, TypeError):
            return None
        except ApiError as error:
            if not error.is_forbidden and error.status != 404:
                raise
            return None
    return str(client.remembered[_USER_NAME])


def may(client: Client, verb: str, resource: str, namespace: str, user: str = "", groups: Sequence[str] = ()) -> bool:
    """Whether the account, or a user with groups, has a verb on a resource, written as kubectl does.

    The authorizers decide, whichever they are. To ask about others takes a permission of its own.
    """
    named, _slash, subresource = resource.partition("/")
    plural, _dot, group = named.partition(".")
    asked = {"verb": verb, "group": group, "resource": plural, "subresource": subresource, "namespace": namespace}
    spec: dict[str, Any] = {"resourceAttributes": asked}
    if user or groups:
        answer = _review(client, SUBJECT_ACCESS_REVIEW, {**spec, "user": user, "groups": list(groups)})
    else:
        answer = _review(client, SELF_SUBJECT_ACCESS_REVIEW, spec)
    return (answer.get("status") or {}).get("allowed") is True


def _review(client: Client, review: Resource, spec: dict[str, Any] | None = None) -> dict[str, Any]:
    body = {"apiVersion": review.api_version, "kind": review.kind, **({"spec": spec} if spec else {})}
    return client.transport.request("POST", review.path(), Expected(review.kind), body=body)
