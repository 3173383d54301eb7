# SPDX-License-Identifier: BSD-2-Clause
"""Who is asking, and whether they may.

Source: apiserver pkg/authentication (bearer tokens, anonymous, impersonation), plugin/pkg/auth/authorizer/rbac.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kubesim import errors
from kubesim.request_info import RequestInfo


@dataclass(frozen=True)
class User:
    """`groups` with those that everybody gets (system:authenticated)."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()


#: The controllers.
SYSTEM = User("system:kube-controller-manager", "", ("system:masters", "system:authenticated"))
ANONYMOUS = User("system:anonymous", "", ("system:unauthenticated",))


class Authenticator:
    def __init__(self, tokens: dict[str, User]) -> None:
        self.tokens = tokens

    def identify(self, headers: Mapping[str, str]) -> User:
        """The user of a request; 401 for a token nobody has, anonymous without one."""
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return ANONYMOUS
        user = self.tokens.get(token.strip())
        if user is None:
            raise errors.unauthorized()
        return user


class Authorizer:
    def require(self, user: User, info: RequestInfo) -> None:
        return None
