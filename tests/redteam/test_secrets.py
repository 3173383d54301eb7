# SPDX-License-Identifier: BSD-2-Clause
"""Attacks on secrets: what ansible-playbook -vvv prints is searched for them, in every form, on both ways to run."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.cluster.status import status_of
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.events.explanations import failure_details
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.history.job_history import MODULE as HISTORY
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.history.job_history_info import (
    MODULE as HISTORY_INFO,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task
from integration.ansible import Ansible, Run
from integration.api import Api, eventually
from integration.manifests import compute, training
from integration.recorder import Recorder
from integration.tasks import perform
from kubesim import Cluster

TOKEN = 'K"9/x+y&z%1_t0k3n-5d77e1'
PASSWORD = "p4ss/w+rd-1b88c2"
WAYS = [pytest.param("1", id="fast"), pytest.param("0", id="module", marks=pytest.mark.nightly)]


@pytest.fixture(params=WAYS)
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> Ansible:
    """Ansible without a cluster, on each of the two ways."""
    return Ansible(tmp_path, {"GPUCTL_FAST_PATH": request.param, "KUBECONFIG": "/nowhere"})


@pytest.fixture(params=WAYS)
def cluster(request: pytest.FixtureRequest, ansible: Ansible) -> Ansible:
    return replace(ansible, environment={**ansible.environment, "GPUCTL_FAST_PATH": request.param})


def forms(secret: str) -> dict[str, str]:
    return {
        "plain": secret,
        "JSON": json.dumps(secret)[1:-1],
        "repr": repr(secret)[1:-1],
        "bytes": repr(secret.encode())[2:-1],
        "URL": quote(secret, safe=""),
        "base64": base64.b64encode(secret.encode()).decode(),
        "base64 with its scheme": base64.b64encode(f"Bearer {secret}".encode()).decode(),
        "escaped twice": json.dumps(json.dumps(secret)[1:-1])[1:-1],
    }


def assert_hidden(text: str, *secrets: str) -> None:
    """Of base64, its first and last characters depend on what else is encoded."""
    inner = {"base64": slice(0, -4), "base64 with its scheme": slice(12, -4)}
    found = [
        f"{form} of {secret}"
        for secret in secrets
        for form, shown in forms(secret).items()
        if shown[inner.get(form, slice(None))] in text
    ]
    assert not found, text


def task(module: str, options: dict[str, Any], **keywords: Any) -> dict[str, Any]:
    return {"name": module, f"runwhere.gpuctl.{module}": options, **keywords}


def play(ansible: Ansible, tasks: list[dict[str, Any]]) -> Run:
    """Each task with and without no_log, with all that Ansible can say about it."""
    return ansible.play([{**one, "no_log": no_log} for one in tasks for no_log in (False, True)], arguments=("-vvv",))


def messages(run: Run) -> list[str]:
    """Of the tasks without no_log."""
    return [result.message for result in run.tasks[::2]]


@dataclass
class Double:
    """An API server that answers with what ``answers`` has for the first part of the path, and sees processes."""

    url: str = ""
    answers: dict[str, tuple[int, dict[str, str], str]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    command_lines: list[str] = field(default_factory=list)


@pytest.fixture
def double() -> Iterator[Double]:
    double = Double()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            double.requests.append(f"{self.command} {self.path}\n{self.headers}")
            for process in Path("/proc").glob("[0-9]*/cmdline"):
                with suppress(OSError):
                    double.command_lines.append(process.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            part = "pods" if "/pods" in self.path else self.path.split("/")[1]
            status, headers, body = double.answers.get(part, (404, {}, ""))
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body.encode())), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body.encode())

        do_GET = do_POST = do_PATCH = do_DELETE = answer

        def log_message(self, format: str, *args: object) -> None:
            """Silent."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    double.url = f"http://127.0.0.1:{server.server_port}"
    yield double
    server.shutdown()
    server.server_close()


def kubeconfig(server: str, user: dict[str, Any], **cluster: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": server, **cluster}}],
        "users": [{"name": "a", "user": user}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    }


def exec_plugin(path: Path, script: str) -> dict[str, Any]:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    version = "client.authentication.k8s.io/v1"
    return {"exec": {"apiVersion": version, "command": str(path), "interactiveMode": "Never"}}


def credential(token: str) -> str:
    return json.dumps(
        {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token}}
    )


# -- credentials -------------------------------------------------------------------------------------------------------


def test_a_token_that_no_header_can_have(shell: Ansible, double: Double, tmp_path: Path) -> None:
    """Whoever hands out tokens puts a line break into one: its parts must not come back in the error."""
    parts = ("first-half-90ab12", "second-half-34cd56")
    token = "\r\n".join(parts)
    (tmp_path / "token").write_text(token)
    (tmp_path / "credential.json").write_text(credential(token))
    plugin = exec_plugin(tmp_path / "plugin", f"cat {tmp_path}/credential.json")
    users: list[dict[str, Any]] = [{"token": token}, {"tokenFile": str(tmp_path / "token")}, plugin]
    cases: list[dict[str, Any]] = [{"api_key": token, "host": double.url}]
    for number, user in enumerate(users):
        path = tmp_path / f"{number}.kubeconfig"
        path.write_text(yaml.safe_dump(kubeconfig(double.url, user)))
        cases += [{"kubeconfig": kubeconfig(double.url, user)}, {"kubeconfig": str(path)}]
    tasks = [task("gpuctl_quota_info", options) for options in cases]
    given = {"K8S_AUTH_API_KEY": token, "K8S_AUTH_HOST": double.url}
    run = play(shell, [*tasks, task("gpuctl_quota_info", {}, environment=given)])
    assert_hidden(run.output, *parts)
    for message in messages(run):
        assert "the token is not valid: it contains a space, a line break" in message
        assert "bug" not in message
    assert double.requests == []


def test_a_line_break_at_the_end_is_none_of_the_token(shell: Ansible, double: Double) -> None:
    """A file's last line break must neither break the request nor let the token through as another text."""
    double.answers["echo"] = (403, {}, json.dumps({"kind": "Status", "message": f"no access for {TOKEN}"}))
    run = play(shell, [task("gpuctl_quota_info", {"host": f"{double.url}/echo", "api_key": f"{TOKEN}\n"})])
    assert_hidden(run.output, TOKEN)
    assert messages(run)[0].startswith("no access for ********")
    assert f"Authorization: Bearer {TOKEN}\n" in double.requests[0]


def test_a_server_that_returns_the_credentials(shell: Ansible, double: Double) -> None:
    """A malicious server quotes the Authorization header, in any form, in all that it can answer with."""
    status = json.dumps({"kind": "Status", "message": "no: @", "details": {"causes": [{"message": "@"}]}})
    node = {"metadata": {"name": "n", "uid": "u", "labels": {"zone": "@"}, "creationTimestamp": "2026-01-01T00:00:00Z"}}
    nodes = json.dumps({"kind": "NodeList", "metadata": {}, "items": [{**node, "spec": {}, "status": {}}]})
    answers = {
        "status": (403, {}, status),
        "unauthorized": (401, {}, "who is @?"),
        "failure": (400, {}, "no: @"),
        "cut": (200, {}, f"{'x' * 60} @"),
        "kind": (200, {}, '{"kind": "@"}'),
        "redirect": (302, {"Location": "http://127.0.0.1:1/@?@"}, ""),
        "object": (200, {}, nodes),
    }
    for mode, (code, headers, body) in answers.items():
        shown = TOKEN if mode == "cut" else " ".join(forms(TOKEN).values())
        as_json = json.dumps(shown)[1:-1] if body.startswith("{") else shown
        location = {name: value.replace("@", quote(shown)) for name, value in headers.items()}
        double.answers[mode] = (code, location, body.replace("@", as_json))
    double.answers["pods"] = (200, {}, json.dumps({"kind": "PodList", "metadata": {}, "items": []}))
    tasks = [
        task("gpuctl_node_info", {"host": f"{double.url}/{mode}", "label_keys": ["zone"], "retries": 0})
        for mode in answers
    ]
    given = {"K8S_AUTH_API_KEY": TOKEN, "KUBECONFIG": "/nowhere"}
    run = replace(shell, environment={**shell.environment, **given}).play(tasks, arguments=("-vvv",))
    assert_hidden(run.output, TOKEN)
    for start in (TOKEN[:12], quote(TOKEN, safe="")[:14]):
        assert start not in run.output, "a text was cut within the token"
    assert sum(f"Bearer {TOKEN}" in request for request in double.requests) >= len(tasks)


def test_passwords_in_urls(shell: Ansible, double: Double, tmp_path: Path) -> None:
    """An error about a proxy or host must not quote the password in its URL."""
    with_password = f"http://user:{quote(PASSWORD, safe='')}@127.0.0.1:1"
    path = tmp_path / "proxied.kubeconfig"
    proxied = kubeconfig("https://192.0.2.1", {}, **{"proxy-url": with_password})
    path.write_text(yaml.safe_dump(proxied))
    cases = [
        {"host": with_password},
        {"host": f"{with_password}:x"},
        {"host": "https://192.0.2.1", "proxy": with_password},
        {"kubeconfig": proxied},
        {"kubeconfig": str(path)},
        {"host": double.url, "username": "user", "password": PASSWORD},
        {"host": double.url, "proxy_headers": {"proxy_basic_auth": f"user:{PASSWORD}"}},
    ]
    tasks = [task("gpuctl_quota_info", {**options, "retries": 0}) for options in cases]
    variables = {"K8S_AUTH_HOST": "https://192.0.2.1", "K8S_AUTH_PROXY": with_password}
    run = play(shell, [*tasks, task("gpuctl_quota_info", {"retries": 0}, environment=variables)])
    assert_hidden(run.output, PASSWORD)
    assert all(result.failed for result in run.tasks)


def test_what_an_exec_plugin_is_called_with(shell: Ansible, double: Double, tmp_path: Path) -> None:
    """A plugin that fails repeats its arguments and variables: neither that nor -vvv may show the secrets in them."""
    plugin = exec_plugin(tmp_path / "plugin", 'echo "no login with $2 and $CLIENT_SECRET" >&2; exit 3')
    called = {**plugin["exec"], "args": ["--password", PASSWORD], "env": [{"name": "CLIENT_SECRET", "value": TOKEN}]}
    config = kubeconfig("https://192.0.2.1", {"exec": called})
    path = tmp_path / "exec.kubeconfig"
    path.write_text(yaml.safe_dump(config))
    provider = {"auth-provider": {"name": "oidc", "config": {"client-secret": TOKEN, "refresh-token": PASSWORD}}}
    tasks = [
        task("gpuctl_quota_info", {"kubeconfig": config}),
        task("gpuctl_quota_info", {"kubeconfig": str(path)}),
        task("gpuctl_quota_info", {"kubeconfig": kubeconfig("https://192.0.2.1", provider)}),
        task("gpuctl_quota_info", {"kubeconfig": path.read_text()}),
        task("gpuctl_quota_info", {"kubeconfig": config, "colour": "red"}),
    ]
    run = play(shell, tasks)
    assert_hidden(run.output, PASSWORD, TOKEN)
    assert "no login with ******** and ********" in messages(run)[0]
    assert "Pass it through from_yaml." in messages(run)[3]


def test_no_secret_is_on_a_command_line(shell: Ansible, double: Double) -> None:
    """Another user of the controller lists its processes: ``environment`` must not be on a command line."""
    own = {"VAULT_ADDR": "https://vault.example.com", "AWS_SECRET_ACCESS_KEY": PASSWORD, "K8S_AUTH_API_KEY": TOKEN}
    run = play(shell, [task("gpuctl_quota_info", {"host": double.url, "retries": 0}, environment=own)])
    assert_hidden(run.output + "".join(double.command_lines), PASSWORD, TOKEN)
    assert f"Bearer {TOKEN}" in double.requests[0]
    assert len(double.command_lines) > 1


def test_credentials_are_not_sent_without_encryption(shell: Ansible) -> None:
    """Somebody on the network reads along: a token is not sent to http:// unless the task says so."""
    own = kubeconfig("http://192.0.2.1", {"token": TOKEN})
    cases = [{"host": "http://192.0.2.1", "api_key": TOKEN}, {"kubeconfig": own}]
    run = play(shell, [task("gpuctl_quota_info", case) for case in cases])
    assert_hidden(run.output, TOKEN)
    for message in messages(run):
        assert message == (
            "credentials would be sent without encryption: http://192.0.2.1. Use https://, or set "
            "allow_plaintext_credentials to true."
        )


def test_credentials_of_a_kubeconfig_for_another_host(shell: Ansible) -> None:
    """Somebody sets K8S_AUTH_HOST to a server of theirs: that the kubeconfig's token goes there is not silent."""
    options = {"kubeconfig": kubeconfig("https://api.example.com", {"token": TOKEN}), "host": "https://192.0.2.1"}
    run = shell.module("gpuctl_quota_info", **options, request_timeout=1, retries=0)
    words = "are for https://api.example.com, and host sends them to https://192.0.2.1"
    assert words in " ".join(run.screen.split())


# -- manifests ---------------------------------------------------------------------------------------------------------

PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqh-77aa\n-----END PRIVATE KEY-----\n"
# A variable, and what of its value must not be shown.
HIDDEN = {
    "PGPASSWORD": ("pg-{}", "pg-{}"),
    "SSHPASS": ("ssh-{}", "ssh-{}"),
    "GITHUB_PAT": ("pat-{}", "pat-{}"),
    "HFTOKEN": ("hft-{}", "hft-{}"),
    "DATABASE": ("Server=db;User Id=sa;Password=ado {};Encrypt=yes", "ado {}"),
    "LIBPQ": ("host=db password=pq-{} dbname=x", "pq-{}"),
    "DSN": ("postgres://me:p@g-{}@db:5432/x", "g-{}"),
    "MYSQL": ("me:go-{}@tcp(db:3306)/x", "go-{}"),
    "GOOGLE": ('{{"type": "service_account", "private_key": "-----BEGIN PRIVATE KEY-----\\nMII-{}\\n"}}', "MII-{}"),
    "SLACK": ("https://hooks.slack.com/services/T0/B0/slack-{}", "slack-{}"),
    "DISCORD": ("https://discord.com/api/webhooks/123456/discord-{}", "discord-{}"),
    "TEAMS": ("https://x.webhook.office.com/webhookb2/a@b/IncomingWebhook/teams-{}/c", "teams-{}"),
    "DINGTALK": ("https://oapi.dingtalk.com/robot/send?access_token=ding-{}", "ding-{}"),
    "FEISHU": ("https://open.feishu.cn/open-apis/bot/v2/hook/feishu-{}", "feishu-{}"),
    "WECOM": ("https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=wecom-{}", "wecom-{}"),
    "TLS": (PEM + "{}", "MIIEvQIBADANBgkqh-77aa"),
}


def filled_in(mark: str) -> tuple[dict[str, str], list[str]]:
    return (
        {name: value.format(mark) for name, (value, _secret) in HIDDEN.items()},
        [secret.format(mark) for _value, secret in HIDDEN.values()],
    )


def test_secrets_of_any_kind_in_a_manifest(cluster: Ansible, namespace: str) -> None:
    """A colleague reads the output of a pipeline: passwords, connection strings, keys and webhooks are masked."""
    (first, old), (second, new) = filled_in("1f0e9d8c"), filled_in("7a6b5c4d")
    jobs = [compute(environment={"env": env, "args": [f"--dsn={env['DSN']}"]}) for env in (first, second)]
    options = {"namespace": namespace}
    tasks = [task("gpuctl_job", {"definition": job, **options}) for job in jobs]
    tasks += [
        task("gpuctl_job", {"definition": yaml.safe_dump(jobs[0]), **options}, check_mode=True),
        task("gpuctl_job_info", {"namespaces": [namespace], "full": True, "details": True, "pods": True}),
        task("gpuctl_job", {"definition": {**jobs[0], "service": {"prot": 1}}, **options}),
        task("gpuctl_job", {"definition": jobs[0], "colour": "red", **options}),
        task("gpuctl_job", {"definition": {**jobs[0], "job": {"name": "Web"}}, **options}),
    ]
    run = cluster.play(tasks, arguments=("-vvv",))
    assert_hidden(run.output, *old, *new)
    assert [result.outcome for result in run.tasks] == ["ok", "ok", "ok", "ok", "failed", "failed", "failed"]
    assert "postgres://me:********@db:5432/x" in run.output


def test_variables_marked_as_secret(cluster: Ansible, api: Api, namespace: str) -> None:
    """A name that does not tell: the mark hides the value, also in tasks without the manifest, and restarts nothing."""
    value = "license-30cc4d"
    job = compute(environment={"env": {"VENDOR": value}, "command": ["echo", "$(VENDOR)"]})
    marked = compute(environment={**job["environment"], "env": [{"name": "VENDOR", "value": value, "secret": True}]})
    assert cluster.job(definition=job, namespace=namespace, wait=True).changed
    before = api.get("deployment", "web", namespace)
    tasks = [
        task("gpuctl_job", {"definition": marked, "namespace": namespace}),
        task("gpuctl_job", {"definition": marked, "namespace": namespace}),
        task("gpuctl_job_info", {"namespaces": [namespace], "full": True, "details": True}),
        task("gpuctl_job_log", {"name": "web", "namespace": namespace}),
        task("gpuctl_job", {"name": "web", "namespace": namespace, "state": "restarted"}),
    ]
    run = cluster.play(tasks, arguments=("-vvv",))
    assert_hidden(run.output, value)
    assert [result.changed for result in run.tasks] == [True, False, False, False, True]
    assert run.tasks[0].jobs["web"]["action"] == "update"
    after = api.get("deployment", "web", namespace)
    assert before
    assert after
    template = after["spec"]["template"]
    template["metadata"].pop("annotations")  # of the restart
    assert template == {**before["spec"]["template"], "metadata": template["metadata"]}
    assert "secret" not in json.dumps(template["spec"]["containers"][0]["env"])


@pytest.mark.usefixtures("printing_containers")
def test_values_of_secrets_that_a_job_prints(
    ansible: Ansible, api: Api, namespace: str, recorder: Recorder, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """A job prints what it has from Secrets: masked for those who may read these, and otherwise as the guide says."""
    token, line = "hub-5d0f31c9aa", "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
    data = {"token": token, "pin": "4711", "key": f"-----BEGIN KEY-----\n{line}\n-----END KEY-----\n"}
    encoded = {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}
    api.create("secret", {"metadata": {"name": "gpuctl-tokens"}, "data": encoded}, namespace)
    references = {name: {"secretKeyRef": {"name": "gpuctl-tokens", "key": name}} for name in encoded}
    env = [{"name": name.upper(), "valueFrom": reference} for name, reference in references.items()]
    prints = {"command": ["sh", "-c", "printenv TOKEN; printenv PIN; printenv KEY; false"], "env": env}
    plain = {"command": ["sh", "-c", "echo plain; false"], "env": {"A": "b"}}
    options = {"namespace": namespace, "wait": True, "wait_for": "complete", "wait_timeout": 8}
    failed = ansible.job(definition=training("prints", environment=prints), **options)
    assert failed.failed
    assert "4711" in failed.message, "the end of the log is in the message"
    assert_hidden(failed.screen + json.dumps(failed.result), token, line)
    ansible.job(definition=training("plain", environment=plain), **options)
    for name, reads in (("prints", 1), ("plain", 0)):
        recorder.clear()
        saved = ansible.module("gpuctl_job_log", name=name, namespace=namespace, dest=str(tmp_path / name))
        assert not saved.failed, saved.message
        assert_hidden(saved.screen + json.dumps(saved.result) + (tmp_path / name).read_text(), token, line)
        assert sum("/secrets/" in one.path for one in recorder.requests) == reads
    assert "********\n4711\n" in (tmp_path / "prints").read_text()

    request.getfixturevalue("submitter")
    shown = ansible.module("gpuctl_job_log", name="prints", namespace=namespace)
    assert token in json.dumps(shown.result), "the level submit may not read Secrets"


_ITEM = {"secret": {"name": "gpuctl-tokens", "items": [{"key": "t", "path": "t"}]}}
# How other tools hand a Secret to the pods of a job: no manifest has these.
HANDED_OVER = {
    "envFrom": {"envFrom": [{"secretRef": {"name": "gpuctl-tokens"}}]},
    "a volume": {"volumes": [{"name": "tokens", "secret": {"secretName": "gpuctl-tokens"}}]},
    "a file of a projected volume": {"volumes": [{"name": "tokens", "projected": {"sources": [_ITEM]}}]},
}


@pytest.mark.usefixtures("printing_containers")
@pytest.mark.parametrize("handed_over", HANDED_OVER.values(), ids=HANDED_OVER)
def test_values_of_secrets_that_others_hand_to_a_job(
    ansible: Ansible, api: Api, namespace: str, recorder: Recorder, handed_over: dict[str, Any]
) -> None:
    """A webhook or a colleague adds a Secret to the pods of a job, which print it: masked, at one request."""
    value = "hub-77b1c0de55"
    encoded = base64.b64encode(value.encode()).decode()
    api.create("secret", {"metadata": {"name": "gpuctl-tokens"}, "data": {"t": encoded, "short": "MQ=="}}, namespace)
    prints = {"command": ["sh", "-c", f"echo got {value} 1; false"]}
    wait = {"namespace": namespace, "wait": True, "wait_for": "complete", "wait_timeout": 8}
    assert ansible.job(definition=training("prints", environment=prints), **wait).failed
    (pod, *_others) = api.list("pod", namespace)
    labels = {name: text for name, text in pod["metadata"]["labels"].items() if not name.endswith("controller-uid")}
    main = {"name": "main", "image": "busybox", **prints, "envFrom": handed_over.get("envFrom", [])}
    spec = {"containers": [main], "restartPolicy": "Never", "volumes": handed_over.get("volumes", [])}
    api.create("pod", {"metadata": {"name": "changed", "labels": labels}, "spec": spec}, namespace)
    eventually(lambda: api.get("pod", "changed", namespace)["status"]["phase"] == "Failed", 30)
    recorder.clear()
    log = ansible.module("gpuctl_job_log", name="prints", pod="changed", namespace=namespace)
    assert log.result["results"][0]["lines"] == ["got ******** 1"], "what is too short stays"
    assert_hidden(json.dumps(log.result) + log.screen, value)
    assert sum("/secrets/" in one.path for one in recorder.requests) == 1


def live_jobs(cluster: Cluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.call(lambda: cluster.registry.list("Job", "default"))
    return found


_VARIABLE = {"name": "T", "valueFrom": {"secretKeyRef": {"name": "gpuctl-tokens", "key": "t"}}}
# What an admission webhook for pods writes into them: neither the manifest nor the workload has it.
ADDED_TO_PODS: dict[str, Callable[[dict[str, Any]], object]] = {
    "a variable": lambda spec: spec["containers"][0].setdefault("env", []).append(_VARIABLE),
    "a volume": lambda spec: spec.setdefault("volumes", []).append(
        {"name": "tokens", "secret": {"secretName": "gpuctl-tokens"}}
    ),
    "nothing": lambda spec: None,
}  # fmt: skip


@pytest.mark.parametrize("added", ADDED_TO_PODS)
def test_values_of_secrets_that_a_webhook_adds_to_pods_alone(added: str) -> None:
    """The end of the log in the failure of a job, in its history and in its event has them masked, at one request."""
    value, is_added = "hub-90c2aa41f7", added != "nothing"

    def admit(request: Any) -> None:
        if request.resource.kind == "Pod" and request.operation == "CREATE":
            ADDED_TO_PODS[added](request.obj["spec"])
        elif request.resource.kind == "Job" and request.operation == "CREATE":
            request.obj["spec"]["backoffLimit"] = 0  # The history has the logs of those that have failed for good.

    warnings: list[str] = []
    with Cluster(nodes=1).running() as cluster:
        cluster.registry.webhooks.append(admit)
        encoded = base64.b64encode(value.encode()).decode()
        metadata = {"name": "gpuctl-tokens", "namespace": "default"}
        cluster.load([{"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": {"t": encoded}}])
        prints = {"command": ["sh", "-c", f"echo got {value} 1; false"]}
        options = {"definition": training("prints", environment=prints), "wait_for": "complete", "wait_timeout": 8}
        cluster.requests.reset()
        failed = perform(JOB, cluster, wait=True, **options)
        read = [one for one in cluster.requests if one.resource == "secrets"]
        (job,) = eventually(lambda: [each for each in live_jobs(cluster) if status_of(each) == "Failed"], 30)
        perform(HISTORY, cluster)
        history = perform(HISTORY_INFO, cluster)
        given = {"host": cluster.url, "api_key": cluster.token, "validate_certs": False}
        defaults = {name: option.get("default") for name, option in JOB.arguments()["argument_spec"].items()}
        task = Task(None, {**defaults, **given}, False, warnings.append, list, environ={})
        _reason, event = failure_details(task, job, 20)
    assert failed["failed"]
    shown = "got ******** 1" if is_added else f"got {value} 1"
    assert shown in failed["msg"]
    assert [run["log"] for run in history["results"]] == [[shown]]
    assert event["last_lines"] == [shown]
    assert len(read) == int(is_added)


@pytest.mark.usefixtures("printing_containers")
def test_a_secret_of_a_megabyte_of_lines(ansible: Ansible, api: Api, namespace: str) -> None:
    """A log that is searched for each line of a Secret of a tenant holds nobody up, and the other values are masked."""
    value, lines = "hub-77b1c0de55", "\n".join(f"{number:030d}" for number in range(25_000))
    encoded = {name: base64.b64encode(text.encode()).decode() for name, text in (("big", lines), ("small", value))}
    api.create("secret", {"metadata": {"name": "gpuctl-tokens"}, "data": encoded}, namespace)
    env = [
        {"name": name.upper(), "valueFrom": {"secretKeyRef": {"name": "gpuctl-tokens", "key": name}}}
        for name in encoded
    ]
    text = " ".join(["0" * 29] * 60)
    script = "; ".join([f"echo {text}"] * 30 + [f"echo {value}"])
    job = training("prints", environment={"command": ["sh", "-c", f"{script}; false"], "env": env})
    ansible.job(definition=job, namespace=namespace, wait=True, wait_for="complete", wait_timeout=8)
    began = time.monotonic()
    log = ansible.module("gpuctl_job_log", name="prints", namespace=namespace)
    assert time.monotonic() - began < 30
    assert_hidden(json.dumps(log.result), value)
    assert "********" in json.dumps(log.result)


def test_words_of_one_tenant_in_the_results_of_others(cluster: Ansible, namespace: str) -> None:
    """A tenant's TOKEN is a word such as Running or a colleague's name: no status or name may be masked."""
    words = ["Running", "Pending", "Deployment", "victim", "Ready", namespace, "compute", "create", "unchanged", "0/1"]
    attacker = compute("attacker", environment={"env": {f"TOKEN_{number}": word for number, word in enumerate(words)}})
    both = [attacker, compute("victim"), training("other")]
    tasks = [
        task("gpuctl_job", {"definition": both, "namespace": namespace}),
        task("gpuctl_job", {"definition": both, "namespace": namespace}),
        task("gpuctl_job_info", {"namespaces": [namespace], "full": True, "details": True, "pods": True}),
        task("gpuctl_job", {"name": "victim", "namespace": namespace, "state": "restarted", "wait": True}),
    ]
    run = cluster.play(tasks)
    assert [result.outcome for result in run.tasks] == ["ok"] * 4
    first, again, info, _restarted = run.tasks
    assert first.message == "3 jobs: 3 create"
    assert again.message == "3 jobs: 3 unchanged"
    for result in (first, again, info):
        assert "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER" not in json.dumps(result.result)
        rows = json.dumps([{**job, "object": None} for job in result.result["results"]])
        assert "********" not in rows
        assert {job["namespace"] for job in result.result["results"]} == {namespace}
    assert "TOKEN_0" in json.dumps(info.jobs["attacker"]["object"])
    values = [one["value"] for one in main_container(info.jobs["attacker"]["object"])["env"]]
    assert values == ["********"] * len(words)


def main_container(workload: dict[str, Any]) -> dict[str, Any]:
    container: dict[str, Any] = workload["spec"]["template"]["spec"]["containers"][0]
    return container
