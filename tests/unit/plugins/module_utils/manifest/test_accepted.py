# SPDX-License-Identifier: BSD-2-Clause
"""What is accepted, and what it means."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.manifest.load import ManifestErrors, load
from manifest_cases import FIXTURES, manifest_text, table


def at(model: Any, path: str) -> Any:
    """The attribute, list item or map entry at a path; map entries may have dots in their names."""
    for step in path.split("."):
        if isinstance(model, list):
            model = model[int(step)]
        else:
            model = model[step] if isinstance(model, dict) else getattr(model, step)
    return model


@pytest.mark.parametrize("libyaml", [True, False], ids=["libyaml", "PyYAML alone"])
@pytest.mark.parametrize("case", table("accepted"), ids=lambda case: case["name"])
def test_a_manifest_means_this(case: dict[str, Any], libyaml: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not libyaml:
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    (document,) = load(definition=manifest_text(case))
    assert {path: at(document.model, path) for path in case["gives"]} == case["gives"]


@pytest.mark.parametrize("file", sorted(FIXTURES.glob("valid/*.yaml")), ids=lambda file: file.name)
def test_an_example_of_the_source_documents_loads_verbatim(file: Any) -> None:
    (document,) = load([str(file)])
    assert document.model.kind in file.stem
    assert (document.origin.file, document.origin.number) == (str(file), 1)


BYTES = "64 is 64 bytes. Write 64Gi or 64Mi."
TOKEN = "hf_" + "a" * 30
COMMA, COLON, TWO = "\uff0c", "\uff1a", "\uff12"


def port(published: int, option: str) -> str:
    return (
        f"service.port is {published}, but the command has {option}. If the server listens there, set service.port to "
        f"that port. Otherwise, nothing answers at access_urls."
    )


WARNINGS = [
    (
        "gpu-share beside whole GPUs",
        {"set": {"resources": "{cpu: 1, memory: 1Gi, gpu: 2, gpuShare: 2Gi}"}},
        ["resources.gpuShare: ignored: 2Gi. The job gets 2 whole GPU(s). Remove it, or set gpu to 0."],
    ),
    ("gpu-share alone", {"set": {"resources": "{cpu: 1, memory: 1Gi, gpu: 0, gpu-share: 2Gi}"}}, []),
    (
        "replicas beside autoscaling",
        {"kind": "inference", "set": {"service": "{replicas: 2}", "autoscaling": "{max_replicas: 3}"}},
        ["service.replicas: ignored: 2. autoscaling sets the number of replicas. Remove it."],
    ),
    (
        "the timeout of the former command line, which ignored it",
        {"kind": "inference", "set": {"service": "{timeout: 600}"}},
        ["service.timeout: ignored: 600. Remove it. Startup takes startup_timeout seconds at most."],
    ),
    ("memory in bytes", {"set": {"resources": "{cpu: 1, memory: 64}"}}, [f"resources.memory: {BYTES}"]),
    (
        "memory in thousandths of bytes",
        {"set": {"resources": "{cpu: 1, memory: 64m}"}},
        ["resources.memory: 64m is 64 thousandths of a byte. Write 64Mi or 64Gi."],
    ),
    (
        "kilobytes",
        {"set": {"storage": "{shm: 64k}"}},
        ["storage.shm: 64k is less than 1Mi. Write it in Mi or Gi."],
    ),
    ("a mebibyte", {"set": {"resources": "{cpu: 1, memory: 1Mi}"}}, []),
    (
        "a quota in bytes",
        {"text": "{kind: quota, quota: {name: q}, users: {team-a: {memory: 64}, team-b: {memory: 0}}}"},
        [f"users.team-a.memory: {BYTES}"],
    ),
    (
        "a token in plain text",
        {"set": {"environment": f"{{image: a, env: {{HF_TOKEN: {TOKEN}, B: {{value: {TOKEN}, secret: true}}}}}}"}},
        [
            "environment.env.HF_TOKEN: the value of HF_TOKEN looks like a token or password, in plain text for "
            "everybody who may read the job. Keep it in a Secret and refer to it with valueFrom, or add secret: true "
            "if it may be read."
        ],
    ),
    (
        "a password by the name of its variable",
        {"set": {"environment": "{image: a, env: {DB_PASSWORD: hunter22, WANDB_API_KEY: 1234567, API_KEY_FILE: /k}}"}},
        [
            f"environment.env.{name}: the value of {name} looks like a token or password, in plain text for everybody "
            f"who may read the job. Keep it in a Secret and refer to it with valueFrom, or add secret: true if it may "
            f"be read."
            for name in ("DB_PASSWORD", "WANDB_API_KEY")
        ],
    ),
    (
        "a password from elsewhere",
        {"set": {"environment": "{image: a, env: {URL: 'db://u:$(PASSWORD)@host/', DB_PASSWORD: $(PASSWORD)}}"}},
        [],
    ),
    (
        "another port than the command has",
        {"kind": "inference", "set": {"environment": "{image: a, command: [vllm, serve, /models, --port, 9000]}"}},
        [f"environment.command: {port(8000, '--port 9000')}"],
    ),
    (
        "a notebook that listens on another port",
        {"kind": "notebook", "set": {"environment": "{image: a, command: [jupyter], args: [--ServerApp.port=9999]}"}},
        [f"environment.command: {port(8888, '--ServerApp.port=9999')}"],
    ),
    (
        "a shell line in args that binds another port",
        {"kind": "compute", "set": {"environment": "{image: a, args: [-c, exec gunicorn -b 0.0.0.0:5000 app]}"}},
        [f"environment.args: {port(8000, '-b 0.0.0.0:5000')}"],
    ),
    (
        "one of several ports is published",
        {"kind": "compute", "set": {"environment": "{image: a, command: [sh, -c, \"a --port=1 & b --port '8000'\"]}"}},
        [],
    ),
    (
        "other ports than that of the server",
        {
            "kind": "inference",
            "set": {"environment": "{image: a, args: [--x-port, 9, --master_port=2, --port=$A]}"},
        },
        [],
    ),
    (
        "full-width punctuation in words of ASCII",
        {"set": {"environment": f"{{image: a, command: ['python{COMMA}a.py'], env: {{LR: {TWO}e-5}}}}"}},
        [
            f"environment.command[0]: full-width comma ({COMMA}). Replace it with ','.",
            f"environment.env.LR: full-width digit two ({TWO}). Replace it with '2'.",
        ],
    ),
    (
        "a full-width colon in what may be a secret",
        {"set": {"environment": f"{{image: a, env: [{{name: PIN, value: 'hunter2{COLON}', secret: true}}]}}"}},
        [f"environment.env[0].value: full-width colon ({COLON}). Replace it with ':'."],
    ),
    (
        "full-width punctuation in Chinese, and good quotation marks",
        {"set": {"environment": f"{{image: a, args: ['\u4f60{COMMA}\u597d', 'don\u2019t']}}"}},
        [],
    ),
    ("autoscaling alone", {"kind": "inference", "set": {"autoscaling": "{max_replicas: 3}"}}, []),
]


@pytest.mark.parametrize(("case", "expected"), [case[1:] for case in WARNINGS], ids=[case[0] for case in WARNINGS])
def test_what_is_ignored_or_probably_a_mistake_is_a_warning(case: dict[str, Any], expected: list[str]) -> None:
    (document,) = load(definition=manifest_text(case))
    assert [warning.replace("definition, document 1, ", "") for warning in document.warnings] == expected


TEMPLATED = """\
kind: training
job: {name: a}
environment:
  image: nginx
  command: [python, --model, "{{ model }}", --data, "{{ data.path }}", "{{ token | default('hunter22') }}"]
  env: {MODEL: "{{ model }}", HOME: "{{ lookup('env', 'HOME') }}"}
resources: {cpu: 1, memory: 1Gi}
"""
OF_OTHERS = """\
kind: training
job: {name: a}
environment:
  image: nginx
  command: ["{{.State}}", "{{range .Items}}{{end}}", "{{json .}}", "{% for m in messages %}{{ m }}{% endfor %}"]
  env: {RUN: "${{ github.run_id }}", JSON: '{"a": {"b": {}}}'}
resources: {cpu: 1, memory: 1Gi}
"""
HINT = (
    "Manifest files are not templates. Render this one in a playbook with lookup('ansible.builtin.template', FILE), "
    "and pass the result as O(definition)."
)


def test_a_template_of_ansible_in_a_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text(TEMPLATED)
    (document,) = load([str(file)])
    names = "{{ model }}, {{ data.path }}, {{ token }} and 1 more"
    assert document.warnings == (f"{file}, document 1, environment.command[2]: {names} are not filled in. {HINT}",)

    file.write_text(TEMPLATED.replace("{name: a}", '{name: "{{ name }}"}').replace("1Gi", '"{{ memory }}"'))
    with pytest.raises(ManifestErrors) as refused:
        load([str(file)])
    assert [error.hint for error in refused.value.errors] == [HINT.rstrip(".")] * 2


def test_the_templates_of_others_are_theirs(tmp_path: Path) -> None:
    file = tmp_path / "train.yaml"
    file.write_text(OF_OTHERS)
    (document,) = load([str(file)])
    assert document.warnings == ()
    (document,) = load(definition=TEMPLATED)
    assert document.warnings == (), "Ansible has rendered the option already"


def test_models_are_frozen() -> None:
    (document,) = load(definition=manifest_text({}))
    with pytest.raises(ValueError, match="frozen"):
        document.model.kind = "notebook"  # type: ignore[misc, assignment]
