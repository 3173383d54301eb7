# SPDX-License-Identifier: BSD-2-Clause
"""What accounts may do, as the API server says."""

from __future__ import annotations

from typing import Any

from .client import Client
from .resources import SELF_SUBJECT_ACCESS_REVIEW, SUBJECT_ACCESS_REVIEW, Resource
from .reviews import review


def may(client: Client, verb: str, resource: Resource, namespace: str = "", name: str = "") -> bool:
    """Whether the account has a verb on a kind, on the object of a name or on all; without a namespace, everywhere."""
    group = resource.api_version.rpartition("/")[0]
    place = {"namespace": namespace, "name": name}
    return has_right(client, {"verb": verb, "group": group, "resource": resource.plural, **place})


def may_everything(client: Client) -> bool:
    """Whether the account is an administrator of the whole cluster."""
    return has_right(client, {"verb": "*", "group": "*", "resource": "*"})


def has_right(client: Client, attributes: dict[str, str], **subject: Any) -> bool:
    """Whether the account, or the ``user`` with ``groups``, has it: the authorizers decide, whichever they are."""
    resource = SUBJECT_ACCESS_REVIEW if subject else SELF_SUBJECT_ACCESS_REVIEW
    answer = review(client, resource, {"resourceAttributes": attributes, **subject})
    return (answer.get("status") or {}).get("allowed") is True
