# SPDX-License-Identifier: BSD-2-Clause
"""Which values are secrets, and that no text shows them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import ManifestErrors, load
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.secrets import (
    secret_values,
    shown_definition,
)

MANIFEST: dict[str, Any] = {
    "kind": "notebook",
    "job": {"name": "a"},
    "environment": {
        "image": "x",
        "command": ["jupyter-lab", "--NotebookApp.token=in-the-command", "--password"],
        "args": ["across-the-border", "--lr", "2e-5"],
        "env": {
            "HF_TOKEN": "in-the-env",
            "DATABASE": "postgres://me:in-a-url@db/x",
            "USE_AUTH": "true",
            "API_KEY": "x",
            "PLAIN": "not-secret",
        },
    },
    "resources": {"cpu": 1, "memory": "1Gi"},
}


def test_the_secrets_of_a_manifest() -> None:
    (document,) = load(definition=MANIFEST)
    assert secret_values(document.model) == {"in-the-command", "across-the-border", "in-the-env", "in-a-url"}


@pytest.mark.parametrize(
    "manifest", [{"kind": "pool", "pool": {"name": "p"}}, {"kind": "quota", "quota": {"name": "q"}}]
)
def test_pools_and_quotas_have_no_secrets(manifest: dict[str, Any]) -> None:
    (document,) = load(definition=manifest)
    assert secret_values(document.model) == set()


def test_no_repr_shows_a_value_of_env_or_a_secret_argument() -> None:
    documents = load(definition=MANIFEST)
    for text in (repr(documents), str(documents[0].model), repr(documents[0].model.environment)):  # type: ignore[union-attr]
        assert "HF_TOKEN" in text
        for secret in ("in-the-command", "across-the-border", "in-the-env", "in-a-url", "not-secret"):
            assert secret not in text


SHOWN: dict[str, tuple[Any, Any]] = {
    "a map": ({"env": {"TOKEN": "abcd", "A": "b", "N": 1}}, {"env": {"TOKEN": "********", "A": "b", "N": 1}}),
    "a number": ({"env": {"PIN_TOKEN": 1234}}, {"env": {"PIN_TOKEN": "********"}}),
    "blocks in a map": (
        {"env": {"A": {"value": "abcd", "secret": "yes"}, "TOKEN": {"valueFrom": {"secretKeyRef": {}}}}},
        {"env": {"A": {"value": "********", "secret": "yes"}, "TOKEN": {"valueFrom": {"secretKeyRef": {}}}}},
    ),
    "a list": (
        {
            "env": [
                {"name": "TOKEN", "value": "abcd"},
                {"name": "A", "value": "abcd", "secret": True},
                "TOKEN=abcd",
                "A",
            ]
        },
        {
            "env": [
                {"name": "TOKEN", "value": "********"},
                {"name": "A", "value": "********", "secret": True},
                "TOKEN=********",
                "A",
            ]
        },
    ),
    "a command and its args": (
        {"command": ["serve", "--key"], "args": ["abcd", 1]},
        {"command": ["serve", "--key"], "args": ["********", "1"]},
    ),
    "a command as text": ({"command": "serve --key abcd"}, {"command": "serve --key ********"}),
    "several manifests": (
        [{"kind": "x", "environment": {"env": {"TOKEN": "abcd"}}}, None, "a: abcd"],
        [{"kind": "x", "environment": {"env": {"TOKEN": "********"}}}, None, "********"],
    ),
    "only at its place": (
        {"job": {"name": "abcd"}, "env": {"TOKEN": "abcd"}},
        {"job": {"name": "abcd"}, "env": {"TOKEN": "********"}},
    ),
    "where it is repeated": (
        {"job": {"name": "abcd"}, "kind": "abcd", "env": {"TOKEN": "abcd"}, "note": ["x abcd"]},
        {"job": {"name": "abcd"}, "kind": "abcd", "env": {"TOKEN": "********"}, "note": ["x ********"]},
    ),
    "values that no manifest can have": ({"a": {1, 2}}, "********"),
    "what is no manifest": (
        {"env": 7, "command": None, "args": {"a": 1}},
        {"env": 7, "command": None, "args": {"a": 1}},
    ),
}


@pytest.mark.parametrize(("definition", "shown"), SHOWN.values(), ids=SHOWN)
def test_a_definition_as_a_result_returns_it(definition: Any, shown: Any) -> None:
    assert shown_definition(definition) == shown


def test_marked_variables_are_secret() -> None:
    env = [
        {"name": "VENDOR", "value": "marked-value", "secret": True},
        {"name": "A", "value": "other", "secret": False},
    ]
    (document,) = load(definition={**MANIFEST, "environment": {"image": "x", "env": env}})
    assert secret_values(document.model) == {"marked-value"}


def test_errors_quote_no_secret_and_keep_their_own_words() -> None:
    env = {"TOKEN": "unknown", "HF_TOKEN": "cpu-abcd"}
    environment = {"image": "x", "env": env}
    broken = {**MANIFEST, "environment": environment, "resources": {"cpu": "cpu-abcd", "memory": "1Gi"}, "colour": 1}
    with pytest.raises(ManifestErrors) as caught:
        load(definition=[broken, {**broken, "environment": {"image": "x"}}])
    assert str(caught.value).count("colour: unknown key") == 2
    assert str(caught.value).count("cpu-abcd") == 1, "it is no secret of the second manifest"
