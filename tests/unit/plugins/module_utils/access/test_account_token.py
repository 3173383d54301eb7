# SPDX-License-Identifier: BSD-2-Clause
"""Which token of a service account is kept, and which one is replaced."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.access.account_token import DAY, TokenClaims, read_claims

NOW = 1_800_000_000.0
USER = "system:serviceaccount:gpuctl-system:alice"


def token(claims: Any) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"e30.{payload}.c2ln"


def claims_of(*, issued: float, expires: float) -> TokenClaims:
    return TokenClaims(USER, "u1", NOW + issued * DAY, NOW + expires * DAY)


@pytest.mark.parametrize(
    ("claims", "kept"),
    [
        (claims_of(issued=0, expires=30), True),
        (claims_of(issued=-23, expires=7), True),
        (claims_of(issued=-23.1, expires=6.9), False),  # close to its end
        (claims_of(issued=-60, expires=30.1), False),  # valid for longer than asked for
        (claims_of(issued=-30, expires=-0.1), False),
        (claims_of(issued=-0.4, expires=0.6), True),  # the server grants a day only
        (claims_of(issued=-0.6, expires=0.4), False),
    ],
)
def test_a_token_is_kept_while_it_is_valid_for_long_enough(claims: TokenClaims, kept: bool):
    assert claims.may_be_kept(USER, "u1", NOW, days=30, renew_days=7) is kept


@pytest.mark.parametrize(("user", "uid"), [(USER, "u2"), ("system:serviceaccount:gpuctl-system:bob", "u1")])
def test_a_token_of_another_account_is_not_kept(user: str, uid: str):
    assert not claims_of(issued=0, expires=30).may_be_kept(user, uid, NOW, days=30, renew_days=7)


def test_the_claims_of_kubernetes():
    claims = {"sub": USER, "iat": 1, "exp": 86_401, "kubernetes.io": {"serviceaccount": {"uid": "u1"}}}
    found = read_claims(token(claims))
    assert found == TokenClaims(USER, "u1", 1.0, 86_401.0)
    assert found.expiry == "1970-01-02T00:00:01Z"


@pytest.mark.parametrize(
    "text", ["", "None", "opaque", "a.b.c", "a.%.c", token([]), token({"sub": "x"}), token({"kubernetes.io": None})]
)
def test_what_is_no_token_of_an_account(text: str):
    assert read_claims(text) is None
