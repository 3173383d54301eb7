# SPDX-License-Identifier: BSD-2-Clause
"""Which values are secrets, and that no text shows them."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import load
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.secrets import secret_values
from ansible_collections.runwhere.gpuctl.plugins.module_utils.redaction import (
    live_secret_values,
    looks_secret,
    redact,
    redact_arguments,
)

SECRET_NAMES = [
    "token",
    "HF_TOKEN",
    "--token",
    "--hf-token",
    "NotebookApp.token",
    "HUGGING_FACE_HUB_TOKEN",
    "token2",
    "PASSWORD_PROD",
    "password",
    "dbPassword",
    "MYSQL_PWD",
    "DB_PASS",
    "secret",
    "CLIENT_SECRET",
    "AWS_SECRET_ACCESS_KEY",
    "api-key",
    "API_KEY",
    "OPENAI_API_KEY",
    "APIKEY",
    "OPENAI_KEY",
    "WANDB_API_KEY",
    "privateKey",
    "ssh_key",
    "key",
    "credentials",
    "AUTHORIZATION",
    "BASIC_AUTH",
]
PLAIN_NAMES = [
    "tokenizer",
    "max_tokens",
    "--max-new-tokens",
    "keyboard",
    "monkey",
    "PATH",
    "HOME",
    "HF_HOME",
    "passthrough",
    "compass",
    "author",
    "eos_token",
    "--pad-token",
    "image_token",
    "primary_key",
    "sort-key",
    "--input_key",
    "--label-key",
    "public_key",
    "TOKEN_URL",
    "PASSWORD_FILE",
    "SECRET_NAME",
    "token_length",
    "model_name_or_path",
    "NCCL_DEBUG",
    "-m",
    "--stage",
]


@pytest.mark.parametrize("name", SECRET_NAMES)
def test_names_of_secrets(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_other_names(name: str) -> None:
    assert not looks_secret(name)


COMMAND_LINES: list[tuple[list[str], list[str]]] = [
    (["serve", "--token=abcd"], ["serve", "--token=********"]),
    (["serve", "--NotebookApp.token=abcd", "--NotebookApp.password="],
     ["serve", "--NotebookApp.token=********", "--NotebookApp.password="]),
    (["serve", "--api-key", "abcd", "--port", "80"], ["serve", "--api-key", "********", "--port", "80"]),
    (["serve", "--api-key", "--port", "80"], ["serve", "--api-key", "--port", "80"]),
    (["serve", "--password", "two words"], ["serve", "--password", "********"]),
    (["serve", "--password", "a", "data"], ["serve", "--password", "********", "data"]),
    (["serve", "wandb.api_key=abcd"], ["serve", "wandb.api_key=********"]),
    (["sh", "-c", "export HF_TOKEN=abcd; run --password 'efgh' --lr 1"],
     ["sh", "-c", "export HF_TOKEN=********; run --password '********' --lr 1"]),
    (["serve", "--db", "postgres://me:abcd@db:5432/x"], ["serve", "--db", "postgres://me:********@db:5432/x"]),
    (["train", "--tokenizer", "qwen", "--max-tokens=10"], ["train", "--tokenizer", "qwen", "--max-tokens=10"]),
    (["serve", "--token"], ["serve", "--token"]),
]  # fmt: skip


@pytest.mark.parametrize(("line", "masked"), COMMAND_LINES, ids=lambda line: " ".join(line))
def test_a_command_line_without_its_secrets(line: list[str], masked: list[str]) -> None:
    assert redact_arguments(line) == masked


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


LIVE: list[tuple[str, dict[str, Any], set[str]]] = [
    (
        "of every container",
        {"spec": {"template": {"spec": {"containers": [
            {"name": "main", "env": [{"name": "HF_TOKEN", "value": "in-the-env"}, {"name": "PLAIN", "value": "shown"}],
             "command": ["serve", "--password"], "args": ["across-the-border"]},
            {"name": "side", "env": [{"name": "API_KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}],
             "args": ["--token=in-the-args"]},
        ]}}}},
        {"in-the-env", "across-the-border", "in-the-args"},
    ),
    ("of a Service, which has none", {"spec": {"ports": [{"port": 80}]}}, set()),
    ("of a ConfigMap, which has no spec", {"data": {"a": "b"}}, set()),
]  # fmt: skip


@pytest.mark.parametrize(("workload", "expected"), [case[1:] for case in LIVE], ids=[case[0] for case in LIVE])
def test_the_secrets_of_a_live_object(workload: dict[str, Any], expected: set[str]) -> None:
    assert live_secret_values(workload) == expected


def test_no_repr_shows_a_value_of_env_or_a_secret_argument() -> None:
    documents = load(definition=MANIFEST)
    for text in (repr(documents), str(documents[0].model), repr(documents[0].model.environment)):  # type: ignore[union-attr]
        assert "HF_TOKEN" in text
        for secret in ("in-the-command", "across-the-border", "in-the-env", "in-a-url", "not-secret"):
            assert secret not in text


def test_data_is_redacted_at_every_depth_longest_secret_first() -> None:
    data = {"a": ["x-abcd-y", {"b": "abcdef"}], "n": 1, "t": ("abcd",)}
    assert redact(data, {"abcd", "abcdef", ""}) == {
        "a": ["x-********-y", {"b": "********"}],
        "n": 1,
        "t": ["********"],
    }
    assert redact(data, set()) is data
