# SPDX-License-Identifier: BSD-2-Clause
"""Docker config files, and what a diff shows of the Secret that is made of them."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.access.workspace_objects import (
    login,
    logins_of,
    pull_secret,
    registry_secrets,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.redaction import masked_object

ENTRY = {"auth": "bWU6cHc="}


@pytest.mark.parametrize(
    "config", [{"auths": {"r.example": ENTRY}}, {"auths": {"r.example": ENTRY, "store.example": {}}, "credsStore": "x"}]
)
def test_the_credentials_of_a_docker_config_file(config: dict[str, Any]):
    assert logins_of(json.dumps(config)) == {"r.example": ENTRY}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3cret", "is not a docker config file."),
        ("[]", "has no credentials. Run docker login first."),
        ("{}", "has no credentials. Run docker login first."),
        ('{"auths": {"r.example": {}}, "credsStore": "desktop"}', "They are in the credential store of this machine."),
    ],
)
def test_a_file_without_credentials(text: str, expected: str):
    with pytest.raises(ValueError, match=re.escape(expected)) as problem:
        logins_of(text)
    assert "s3cret" not in str(problem.value)


def test_no_value_of_a_secret_is_shown():
    registries = login("r.example", "robot", "pw-1")
    assert registry_secrets(registries) == {"pw-1", "cm9ib3Q6cHctMQ=="}
    shown = masked_object(pull_secret("a", registries))
    assert shown["data"] == {".dockerconfigjson": "********"}
