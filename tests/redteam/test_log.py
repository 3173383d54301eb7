# SPDX-License-Identifier: BSD-2-Clause
"""Whoever writes logs and names files: none of it acts on the terminal, on templates or on other people's files."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from integration.ansible import Ansible
from integration.api import Api, eventually
from integration.manifests import compute

from .trap import ESCAPES, SHOWN, Trap, acts_on_a_terminal, serving

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link to another user")
NOBODY = 65534
CARRIAGE_RETURN = r"\x0d"  # as it is shown


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path / "sprung")


def submit(ansible: Ansible, api: Api, namespace: str, *lines: str) -> None:
    """A job whose container prints its environment: with the lines as values."""
    job = compute(
        job={"description": " ".join(lines)},
        environment={
            "image": "registry.local/busybox:1",
            "command": ["sh", "-c", "env; sleep 3600"],
            "env": {f"LINE_{number}": line for number, line in enumerate(lines)},
        },
    )
    source = ansible.directory / "web.yaml"  # in a play, its author's templates would be evaluated
    source.write_text(yaml.safe_dump(job))
    made = ansible.job(src=str(source), namespace=namespace, wait=True, wait_timeout=120)
    assert not made.failed, made.message
    (pod,) = api.list("pod", namespace, "app=web")
    path = f"{api.server}/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}/log?container=main"

    def has_printed() -> bool:
        return b"LINE_0=" in api.pool.request("GET", path, headers=api.headers).data

    eventually(has_printed)


def log(namespace: str, **options: Any) -> dict[str, Any]:
    return {"runwhere.gpuctl.gpuctl_job_log": {"name": "web", "namespace": namespace, "tail": -1, **options}}


@pytest.mark.usefixtures("printing_containers")
def test_lines_of_a_log_are_text(ansible: Ansible, api: Api, namespace: str, trap: Trap, tmp_path: Path):
    """A job logs templates and escape sequences: neither Ansible nor the terminal nor the file of dest obeys them."""
    escapes, overwritten = ESCAPES.replace("\r", ""), f"hidden{ESCAPES}"
    submit(ansible, api, namespace, f"{trap.template}{escapes}", overwritten, trap.statement, trap.header, trap.unsafe)
    dest = tmp_path / "web.log"
    run = ansible.play(
        [
            {**log(namespace), "register": "log"},
            log(namespace, dest=str(dest)),
            {"ansible.builtin.set_fact": {"copied": "{{ log.results }}", "text": "{{ log.results[0].lines | join }}"}},
            {"ansible.builtin.debug": {"msg": "{{ copied }} {{ text }} {{ copied | to_nice_yaml | from_yaml }}"}},
            {"ansible.builtin.debug": {"msg": "{{ item }}"}, "loop": "{{ log.results[0].lines }}"},
            {"ansible.builtin.copy": {"dest": str(tmp_path / "copy"), "content": "{{ text }}"}},
        ]
    )
    assert [task.message for task in run.tasks if task.failed] == []
    # Of a line that a carriage return starts again, there is what a terminal would show last.
    shown = {f"LINE_0={trap.template}{SHOWN.replace(CARRIAGE_RETURN, '')}", SHOWN.partition(CARRIAGE_RETURN)[2]}
    assert shown <= set(run.tasks[0].result["results"][0]["lines"])
    assert shown <= set(dest.read_text().splitlines())
    book = ansible.run(
        "ansible-playbook",
        "runwhere.gpuctl.logs",
        *("-e", "gpuctl_name=web", "-e", f"gpuctl_namespace={namespace}", "-e", "gpuctl_tail=-1"),
    )
    assert str(trap.file) in book.output, "it was shown"
    for text in (run.output, book.output, dest.read_text(), (tmp_path / "copy").read_text()):
        assert not acts_on_a_terminal(text)
    assert not trap.sprung


@pytest.mark.usefixtures("printing_containers")
@needs_root
def test_dest_is_not_chosen_by_a_link_of_another_user(ansible: Ansible, api: Api, namespace: str, tmp_path: Path):
    """Another user lays a link at dest, or on the way to it, to a file of root's: it is neither written nor read."""
    submit(ansible, api, namespace, "x")
    theirs = tmp_path / "root"
    theirs.mkdir()
    (theirs / "web.log").write_text("secret of root\n")
    shared = tmp_path / "shared"
    shared.mkdir(mode=0o1777)
    for name, target in (("file.log", theirs / "web.log"), ("new.log", theirs / "new.log"), ("dir", theirs)):
        (shared / name).symlink_to(target)
        os.chown(shared / name, NOBODY, NOBODY, follow_symlinks=False)
    names = ("file.log", "new.log", "dir/web.log")
    run = ansible.play([log(namespace, dest=str(shared / name)) for name in names])
    assert [task.failed for task in run.tasks] == [True] * 3
    assert all("is a symbolic link of another user (uid 65534)" in task.message for task in run.tasks)
    assert [path.name for path in theirs.iterdir()] == ["web.log"]
    assert (theirs / "web.log").read_text() == "secret of root\n"
    assert "secret of root" not in run.output


@pytest.mark.usefixtures("printing_containers")
@needs_root
def test_local_path_is_not_chosen_by_a_link_of_another_user(ansible: Ansible, api: Api, namespace: str, tmp_path: Path):
    """Another user lays a link at local_path to a directory of root's: nothing is copied to it, or from it."""
    submit(ansible, api, namespace, "x")
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "key").write_text("secret of root\n")
    (tmp_path / "link").symlink_to("root")
    os.chown(tmp_path / "link", NOBODY, NOBODY, follow_symlinks=False)
    tasks = []
    for state, local in (("to_pod", "link"), ("to_pod", "link/key"), ("from_pod", "link"), ("from_pod", "link/new")):
        options = {"local_path": str(tmp_path / local), "remote_path": "/bin/sh", "state": state}
        tasks.append({"runwhere.gpuctl.gpuctl_copy": {"name": "web", "namespace": namespace, **options}})
    run = ansible.play(tasks)
    assert [task.failed for task in run.tasks] == [True] * 4
    for task in run.tasks:
        assert "is a symbolic link of another user (uid 65534)" in task.message
    assert [path.name for path in (tmp_path / "root").iterdir()] == ["key"]


def test_dest_replaces_no_device_and_waits_for_no_pipe(ansible: Ansible, tmp_path: Path):
    """Somebody puts a named pipe at dest, or the path is that of a device: the task fails at once, and both stay."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    run = ansible.play([log("default", dest=str(pipe)), log("default", dest="/dev/null")])
    assert [task.failed for task in run.tasks] == [True, True]
    assert all("Name a file." in task.message for task in run.tasks)
    assert pipe.is_fifo()
    assert Path("/dev/null").is_char_device()


def test_names_of_manifests_do_not_act_on_the_terminal(ansible: Ansible, trap: Trap, tmp_path: Path):
    """An author names files and jobs with escape sequences and templates: the messages about them are plain text."""
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / f"a{ESCAPES.replace('/', '')}.yaml").write_text("kind: [\n")
    (folder / "b.yaml").write_text(yaml.safe_dump({"kind": f"x{ESCAPES}", ESCAPES: trap.template}))
    (folder / f"{trap.template.replace('/', '|')}.yaml").write_text("kind: [\n")
    run = ansible.run("ansible-playbook", "runwhere.gpuctl.submit", "-e", f"gpuctl_src={folder}")
    assert run.status != 0
    assert r"\x1b[2J" in run.output
    (ansible.directory / "text").write_text(f"{{a: '{ESCAPES[-12:]}'}}")
    text = "{{ lookup('ansible.builtin.file', 'text') }}"
    for fast in ("1", "0"):
        tool = replace(ansible, environment={**ansible.environment, "GPUCTL_FAST_PATH": fast})
        task = {"runwhere.gpuctl.gpuctl_job": {"definition": text}}
        assert not acts_on_a_terminal(tool.play([task], arguments=("-vvv",)).output), "nor in the options of -vvv"
    assert not acts_on_a_terminal(run.output)
    assert not trap.sprung


def test_a_server_s_message_does_not_act_on_the_terminal(ansible: Ansible, trap: Trap):
    """A server rejects with a message of escape sequences and a template, and warns with it: both are plain text."""
    message = f"{trap.template}{ESCAPES}"
    status = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403}
    with serving(lambda path: (403, {**status, "message": message})) as url:
        tasks = [
            {f"runwhere.gpuctl.{module}": {"host": url, **options}, "register": "answer"}
            for module, options in (
                ("gpuctl_job_log", {"name": "web", "namespace": "default"}),
                ("gpuctl_node_info", {}),
                ("gpuctl_job", {"name": "web", "namespace": "default", "state": "restarted"}),
            )
        ]
        shown = {"ansible.builtin.debug": {"msg": "{{ answer }} {{ answer.msg }}"}}
        run = replace(ansible, environment={}).play([*tasks, shown])
    assert [task.failed for task in run.tasks] == [True, True, True, False]
    for task in run.tasks[:3]:
        assert SHOWN in task.message
    assert not acts_on_a_terminal(run.output)
    assert not trap.sprung


def test_answers_of_a_survey_are_text(ansible: Ansible, namespace: str, trap: Trap):
    """A user of AWX answers a survey with templates, which AWX marks as unsafe: no playbook evaluates them."""
    safe = {"gpuctl_name": "sft", "gpuctl_namespace": namespace, "gpuctl_cpu": "1", "gpuctl_memory": "1Gi"}
    attacks = {
        "gpuctl_image": f"registry.example.com/x:{trap.template}",
        "gpuctl_command": f'["echo", "{trap.template}"]',
        "gpuctl_env": f'A: "{trap.template}"\nB: !unsafe "{trap.template}"',
        "gpuctl_workdirs": f"/data/{trap.template.replace(' ', '')}",
        "gpuctl_description": trap.template,
        "gpuctl_pool": trap.statement,
    }
    path = ansible.directory / "answers.yml"
    lines = [f"{name}: {value!r}" for name, value in safe.items()]
    lines += [f"{name}: !unsafe {json.dumps(value)}" for name, value in attacks.items()]
    path.write_text("\n".join(lines))
    for name in (None, *attacks):  # one alone, so that no mistake in another one comes first
        skipped = [f"-e{other}=" for other in attacks if name is not None and other not in (name, "gpuctl_image")]
        run = ansible.run("ansible-playbook", "runwhere.gpuctl.submit_training", "--check", f"-e@{path}", *skipped)
        assert "TASK [Apply the state of the jobs]" in run.output, run.output
        assert not trap.sprung, name
