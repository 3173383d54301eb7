# SPDX-License-Identifier: BSD-2-Clause
"""What a service account's token says of itself, and whether it may be kept. Pure.

The signature is not checked: the token is read from a file of ours, and the API server judges it wherever it is used.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from ..kube.times import time_as_text

DAY = 86_400


@dataclass(frozen=True)
class TokenClaims:
    """Times are seconds since 1970; ``uid`` is that of the account, with which its tokens end."""

    user: str
    uid: str
    issued: float
    expires: float

    def may_be_kept(self, user: str, uid: str, now: float, *, days: int, renew_days: int) -> bool:
        """Whether the token is the account's own, valid for long enough, and for no longer than asked for.

        A server may grant less than ``renew_days``: such a token is kept for half of its life.
        """
        left = self.expires - now
        least = min(renew_days * DAY, (self.expires - self.issued) / 2)
        return (self.user, self.uid) == (user, uid) and least <= left <= days * DAY

    @property
    def expiry(self) -> str:
        """As Kubernetes writes times."""
        return time_as_text(datetime.fromtimestamp(self.expires, timezone.utc))


def read_claims(token: str) -> TokenClaims | None:
    """The claims of a token (RFC 7519; Kubernetes, pkg/serviceaccount/claims.go); None if it is no such token."""
    try:
        _header, payload, _signature = token.split(".")
        claims: Any = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        uid = claims["kubernetes.io"]["serviceaccount"]["uid"]
        return TokenClaims(str(claims["sub"]), str(uid), float(claims["iat"]), float(claims["exp"]))
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
