# SPDX-License-Identifier: BSD-2-Clause
"""What counts as a secret, and where it is masked."""

from __future__ import annotations

import base64
import json
from typing import Any
from urllib.parse import quote

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.redaction import (
    MASK,
    forms_of,
    live_secret_values,
    looks_secret,
    mask_forms,
    mask_value,
    masked_object,
    redact,
    redact_arguments,
    redact_messages,
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
    "ADMIN_PW",
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
    "PGPASSWORD",
    "SSHPASS",
    "GITHUB_PAT",
    "HFTOKEN",
    "RUNNER_CREDS",
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
    "MAX_TOKEN",
    "EOSTOKEN",
    "BYPASS",
    "PGPASSFILE",
    "PATTERN",
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
    (["curl", "-H", "Authorization: Bearer abcdefgh"], ["curl", "-H", "Authorization: ********"]),
    (["serve", "--dsn=postgres://me:p@ss@db/x"], ["serve", "--dsn=postgres://me:********@db/x"]),
    (["serve", "--token=$(HF_TOKEN)"], ["serve", "--token=********"]),
    (["train", "--tokenizer", "qwen", "--max-tokens=10"], ["train", "--tokenizer", "qwen", "--max-tokens=10"]),
    (["serve", "--token"], ["serve", "--token"]),
]  # fmt: skip


@pytest.mark.parametrize(("line", "masked"), COMMAND_LINES, ids=lambda line: " ".join(line))
def test_a_command_line_without_its_secrets(line: list[str], masked: list[str]) -> None:
    assert redact_arguments(line) == masked


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
    (
        "of init containers, of marked variables, and within values",
        {"metadata": {"annotations": {"runwhere.ai/secret-env": '["VENDOR", "ABSENT"]'}},
         "spec": {"template": {"spec": {"initContainers": [{"name": "i", "env": [
             {"name": "VENDOR", "value": "marked"}, {"name": "DSN", "value": "redis://:in-a-url@db/0"}]}]}}}},
        {"marked", "in-a-url"},
    ),
    (
        "of what a restart keeps",
        {"kind": "ControllerRevision", "data": {"uid": "u", "objects": [{"spec": {"template": {"spec": {"containers": [
            {"name": "main", "env": [{"name": "TOKEN", "value": "in-a-copy"}]}]}}}}]}},
        {"in-a-copy"},
    ),
    ("of a Service, which has none", {"spec": {"ports": [{"port": 80}]}}, set()),
    ("of a ConfigMap, which has no spec", {"data": {"a": "b"}}, set()),
]  # fmt: skip


@pytest.mark.parametrize(("workload", "expected"), [case[1:] for case in LIVE], ids=[case[0] for case in LIVE])
def test_the_secrets_of_a_live_object(workload: dict[str, Any], expected: set[str]) -> None:
    assert live_secret_values(workload) == expected


def test_data_is_redacted_at_every_depth_longest_secret_first() -> None:
    data = {"a": ["x-abcd-y", {"b": "abcdef"}], "n": 1, "t": ("abcd",)}
    assert redact(data, {"abcd", "abcdef", ""}) == {
        "a": ["x-********-y", {"b": "********"}],
        "n": 1,
        "t": ["********"],
    }
    assert redact(data, set()) is data


# A value, and what is shown of it.
FORMS = {
    "an ADO.NET connection string": (
        "Server=db;User Id=sa;Password=two words;X=y",
        "Server=db;User Id=sa;Password=§;X=y",
    ),
    "libpq": ("host=db password=abcd dbname=x", "host=db password=§ dbname=x"),
    "a quoted one": ("host=db password='two words' dbname=x", "host=db password=§ dbname=x"),
    "a URL": ("postgres://me:abcd@db:5432/x", "postgres://me:§@db:5432/x"),
    "a URL without a user": ("redis://:abcd@db/0", "redis://:§@db/0"),
    "a token as the user": ("https://x-0123456789abcdef@git.example.com/a", "https://§@git.example.com/a"),
    "MySQL in Go": ("me:abcd@tcp(db:3306)/x", "me:§@tcp(db:3306)/x"),
    "Slack": ("https://hooks.slack.com/services/T0/B0/xyz", "https://hooks.slack.com/services/§"),
    "Discord": ("https://discord.com/api/webhooks/1/abcdefghijklmnop", "https://discord.com/api/webhooks/§"),
    "DingTalk": (
        "https://oapi.dingtalk.com/robot/send?access_token=abcd",
        "https://oapi.dingtalk.com/robot/send?access_token=§",
    ),
    "WeCom": (
        "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=ab-cd",
        "https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=§",
    ),
    "Azure": ("https://x.blob.core.windows.net/c?sv=1&sig=ab%2F", "https://x.blob.core.windows.net/c?sv=1&sig=§"),
    "Telegram": ("https://api.telegram.org/bot123:AbC-d/send", "https://api.telegram.org/bot§/send"),
    "JSON": ('{"type": "x", "private_key": "a\\nb", "user": "u"}', '{"type": "x", "private_key": "§", "user": "u"}'),
    "YAML": ("user: u\npassword: abcd", "user: u\npassword: §"),
    "a header": ("Authorization: Bearer abcdefgh", "Authorization: §"),
    "a well-known prefix": ("use hf_abcdefghijklmnopqrstuv now", "use § now"),
    "a private key": ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nrest", "§\nrest"),
    "a reference": ("postgres://me:$(PASSWORD)@db/x", "postgres://me:§@db/x"),
    "no secret": ("--lr=2e-5 max_tokens=10 https://example.com:8080/a/b?x=y eos_token=</s>", None),
    "a package": ("npm://registry.example.com:4873/@scope/package", None),
}


@pytest.mark.parametrize(("value", "shown"), FORMS.values(), ids=FORMS)
def test_secrets_in_a_value(value: str, shown: str | None) -> None:
    """``§`` stands for the mask."""
    assert mask_forms(value) == (value if shown is None else shown.replace("§", MASK))


def test_values_of_variables() -> None:
    assert mask_value("HF_TOKEN", "abc") == MASK
    assert mask_value("VENDOR", "abc", {"VENDOR"}) == MASK
    assert [mask_value("USE_AUTH", value) for value in ("true", "", "$(TOKEN)")] == ["true", "", "$(TOKEN)"]
    assert mask_value("HF_TOKEN", "$ecret") == MASK


@pytest.mark.parametrize("secret", ['K"9/x+y&z', "two\nlines-of-it", "plain-0123", "with space", "ünicode"])
def test_a_credential_in_the_words_of_others(secret: str) -> None:
    forms = forms_of(secret)
    for line in secret.splitlines():
        data = line.encode()
        others = [json.dumps(line), repr(line), repr(data), quote(line, safe=""), line]
        others += [
            base64.b64encode(before + data + after).decode() for before in (b"", b"a", b"ab") for after in (b"", b"x")
        ]
        for text in others:
            shown = text
            for form in sorted(forms, key=len, reverse=True):
                shown = shown.replace(form, "")
            assert len(shown) <= 8, (text, shown)


def test_short_and_common_credentials_would_mask_everything() -> None:
    assert forms_of("abc") == forms_of("true") == forms_of("") == set()


def test_an_object_is_masked_in_its_containers_and_messages_only() -> None:
    word, kept = "Running", "kubectl.kubernetes.io/last-applied-configuration"
    env = [{"name": "TOKEN", "value": word}, {"name": "VENDOR", "value": "abcd"}, {"name": "PLAIN", "value": "abcd"}]
    containers = [{"name": word, "image": word, "env": env, "command": ["run"], "args": ["--key", word]}]
    annotations = {"runwhere.ai/secret-env": '["VENDOR"]', "other": word, kept: f'{{"value": "{word}"}}'}
    obj = {
        "kind": "Deployment",
        "metadata": {"name": word, "namespace": word, "annotations": annotations},
        "spec": {"template": {"metadata": {"labels": {"a": word}}, "spec": {"containers": containers}}},
        "status": {"phase": word, "conditions": [{"type": word, "message": f"it is {word}"}]},
    }
    before = json.dumps(obj)
    masked = masked_object(obj)
    assert json.dumps(obj) == before
    assert masked["metadata"]["name"] == masked["status"]["phase"] == masked["status"]["conditions"][0]["type"] == word
    assert masked["metadata"]["annotations"]["other"] == word
    assert masked["metadata"]["annotations"][kept] == f'{{"value": "{MASK}"}}'
    assert masked["status"]["conditions"][0]["message"] == f"it is {MASK}"
    (container,) = masked["spec"]["template"]["spec"]["containers"]
    assert (container["name"], container["image"], container["args"]) == (word, word, ["--key", MASK])
    assert [each["value"] for each in container["env"]] == [MASK, MASK, "abcd"]


@pytest.mark.parametrize("annotation", ["", "[", "1", '{"a": 1}', "[1, [2]]", "[" * 100_000])
def test_an_annotation_that_others_have_written(annotation: str) -> None:
    container = {"name": "main", "env": [{"name": "PLAIN", "value": "abcd"}]}
    workload = {
        "metadata": {"annotations": {"runwhere.ai/secret-env": annotation}},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }
    assert live_secret_values(workload) == set()


def test_messages_are_redacted_and_nothing_else() -> None:
    data = {"reason": "abcd", "message": "x abcd", "causes": [{"field": "abcd", "message": ["abcd"]}]}
    expected = {"reason": "abcd", "message": f"x {MASK}", "causes": [{"field": "abcd", "message": [MASK]}]}
    assert redact_messages(data, {"abcd"}) == expected


PIECES = [
    "a",
    "a:",
    "=a:",
    "a://",
    "https://",
    "https://a/",
    "a=",
    "a =",
    ";a ",
    "; ",
    '"a"',
    '"a":',
    "eyJ-",
    "sk-",
    "-sk-",
    "ghp_",
    "bearer ",
    "-----BEGIN ",
    "-----BEGIN PRIVATE KEY-----",
    "-----END ",
    "password=",
    "token: ",
    "@",
    "a@",
    "a:b@",
    " ",
    "\\",
    "https://hooks.slack.com/services/",
    "?sig=",
    "--token=a ",
    "TOKEN=a;",
]


@pytest.mark.parametrize("piece", PIECES)
def test_a_text_that_repeats_itself_takes_no_longer_than_another(piece: str) -> None:
    """A search that starts again at each repetition and runs to the end of the text would take minutes."""
    for text in (piece * (200_000 // len(piece)), f"x=://@tcp( {piece * (200_000 // len(piece))}"):
        redact_arguments([text])
        mask_forms(text)
