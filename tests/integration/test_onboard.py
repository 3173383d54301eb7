# SPDX-License-Identifier: BSD-2-Clause
"""Give a colleague access and revoke it: the playbooks onboard and offboard, and the modules behind them."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from .ansible import Ansible, Run, TaskResult
from .api import Api, eventually
from .manifests import training
from .namespaces import remove_namespaces
from .recorder import Recorder, Request

PASSWORD = "pw-5d0f31c9aa"
REGISTRY = {"registry": "registry.example.com", "registry_username": "robot"}


@dataclass(frozen=True)
class Colleague:
    """Somebody who has no access yet. ``name`` is also the namespace and, in the directory of Ansible, the file."""

    name: str
    file: Path

    def variables(self, **more: Any) -> dict[str, Any]:
        return {"name": self.name, "kubeconfig": self.file.name, **more}

    @property
    def token(self) -> str:
        (user,) = yaml.safe_load(self.file.read_text())["users"]
        return str(user["user"]["token"])


@pytest.fixture
def colleague(ansible: Ansible, api: Api) -> Iterator[Colleague]:
    name = f"t-{secrets.token_hex(4)}"
    yield Colleague(name, ansible.directory / f"{name}.kubeconfig")
    api.delete("serviceaccount", name, "gpuctl-system")
    for obj in api.list("clusterrolebinding"):
        if obj["metadata"]["name"].endswith(f":{name}"):
            api.delete("clusterrolebinding", obj["metadata"]["name"])
    remove_namespaces(api, name)


@pytest.fixture
def direct(ansible: Ansible, kubeconfig: Path) -> Ansible:
    """Ansible without the recorder in between: what it writes into a kubeconfig leads to the cluster itself."""
    return Ansible(ansible.directory, {"K8S_AUTH_KUBECONFIG": str(kubeconfig)})


def run(ansible: Ansible, playbook: str, *arguments: str, **variables: Any) -> Run:
    given = json.dumps({f"gpuctl_{name}": value for name, value in variables.items()})
    environment = {**ansible.environment, "GPUCTL_REGISTRY_PASSWORD": PASSWORD}
    command = ("ansible-playbook", f"runwhere.gpuctl.{playbook}", "-e", given, *arguments)
    return Ansible(ansible.directory, environment).run(*command)


def changed(done: Run) -> int:
    return sum(task.changed for task in done.tasks)


def message(done: Run) -> str:
    """The error of the run."""
    assert done.status != 0, done.output
    return next(task.message for task in done.tasks if task.failed)


def test_check_run_and_again(ansible: Ansible, api: Api, recorder: Recorder, colleague: Colleague):
    given = colleague.variables(gpu=2, cpu="8", storage="10Gi", **REGISTRY)
    predicted = run(ansible, "onboard", "--check", "--diff", **given)
    assert predicted.status == 0, predicted.output
    assert changed(predicted) == 4
    assert recorder.writes == []
    assert not colleague.file.exists()

    first = run(ansible, "onboard", "--diff", "-vvv", **given)
    assert first.status == 0, first.output
    assert changed(first) == 4
    assert colleague.file.stat().st_mode & 0o777 == 0o600
    for secret in (PASSWORD, colleague.token, base64.b64encode(f"robot:{PASSWORD}".encode()).decode()):
        assert secret not in first.output
        assert secret not in json.dumps([task.result for task in first.tasks])
    quota, counts = sorted(
        api.list("resourcequota", colleague.name), key=lambda obj: "count/pods" in obj["spec"]["hard"]
    )
    assert quota["spec"]["hard"]["requests.nvidia.com/gpu"] == "2"
    assert (counts["spec"]["hard"]["count/configmaps"], counts["spec"]["hard"]["count/jobs.batch"]) == ("300", "1k")
    claim = api.get("persistentvolumeclaim", "data", colleague.name)
    assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi"
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    pull = api.get("secret", "gpuctl-registry", colleague.name)
    assert pull["type"] == "kubernetes.io/dockerconfigjson"
    entry = json.loads(base64.b64decode(pull["data"][".dockerconfigjson"]))["auths"]["registry.example.com"]
    assert (entry["username"], entry["password"]) == ("robot", PASSWORD)

    content = colleague.file.read_bytes()
    for arguments in ((), ("--check",)):
        recorder.clear()
        again = run(ansible, "onboard", "--diff", *arguments, **given)
        assert again.status == 0, again.output
        assert changed(again) == 0
        assert recorder.writes == recorder.dry_runs == []
        assert {request.method for request in recorder.requests} == {"GET"}
    assert colleague.file.read_bytes() == content, "a token that is valid for long enough is kept"


def test_a_workspace_says_what_it_has_made(ansible: Ansible, api: Api, namespace: str):
    """The claim and the Secret that manifests name; "create" is only said of a namespace that was not there."""

    def rows(**given: Any) -> list[list[str]]:
        done = run(ansible, "workspace", namespace=namespace, storage="1Gi", **given)
        assert done.status == 0, done.output
        return [line.split() for line in done.output.splitlines() if namespace in line and "=" not in line]

    summary = ["workspace", f"{namespace}:"]
    claim, token = ["data", namespace, "PersistentVolumeClaim"], ["gpuctl-tokens", namespace, "Secret"]
    assert rows() == [[*claim, "create"], [*summary, "update"]]
    assert rows() == [[*claim, "unchanged"], [*summary, "unchanged"]]
    assert rows(tokens={"hf": "abc"}) == [[*token, "create"], [*claim, "unchanged"], [*summary, "update"]]


def test_an_account_cannot_fill_the_cluster_with_objects(ansible: Ansible, api: Api, namespace: str):
    """Limits of one's own stay when a second colleague joins, the API server enforces them, and {} removes them."""

    def limits(**options: Any) -> dict[str, str] | None:
        done = ansible.module("gpuctl_workspace", namespace=namespace, **options)
        assert not done.failed, done.message
        quota = api.get("resourcequota", "gpuctl-object-counts", namespace)
        return quota["spec"]["hard"] if quota else None

    eventually(lambda: api.get("configmap", "kube-root-ca.crt", namespace))
    there = len(api.list("configmap", namespace))
    own = {"count/configmaps": str(there + 2), "count/jobs.batch": "5"}
    assert limits(object_counts={"configmaps": there + 2, "jobs.batch": 5}) == own
    assert limits(object_counts={"configmaps": 300}, keep_object_counts=True) == own
    assert limits() == own
    eventually(lambda: api.get("resourcequota", "gpuctl-object-counts", namespace).get("status", {}).get("used"))
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    answers = [api.call("POST", path, {"metadata": {"name": f"filler-{number}"}}) for number in range(3)]
    assert [status for status, _answer in answers] == [201, 201, 403]
    assert "exceeded quota: gpuctl-object-counts" in answers[2][1]["message"]
    assert limits(object_counts={}) is None
    for given, message in (
        (
            {"ConfigMaps": 3},
            "object_counts: invalid resource 'ConfigMaps'. Use names such as configmaps and jobs.batch.",
        ),
        ({"configmaps": "many"}, "object_counts: not a number of configmaps: 'many'. Use a whole number, such as 300."),
    ):
        refused = ansible.module("gpuctl_workspace", namespace=namespace, object_counts=given)
        assert message in refused.message


def test_the_kubeconfig_works_until_its_owner_leaves(direct: Ansible, api: Api, colleague: Colleague):
    done = run(direct, "onboard", **colleague.variables())
    assert done.status == 0, done.output
    assert "Its token expires at 20" in done.output
    own = Ansible(direct.directory, {"K8S_AUTH_KUBECONFIG": str(colleague.file)})
    assert own.job(definition=training(), namespace=colleague.name).changed
    assert "is forbidden" in own.job(definition=training(), namespace="default").message
    token = colleague.token

    left = run(direct, "offboard", **colleague.variables())
    assert left.status == 0, left.output
    assert f"Still there: {colleague.name}/train." in " ".join(left.output.split())
    assert not colleague.file.exists()
    eventually(lambda: api.with_token(token).call("GET", "/version")[0] == 401, 60)
    assert not api.get("job", "train", colleague.name)["spec"].get("suspend")
    again = run(direct, "offboard", **colleague.variables())
    assert again.status == 0, again.output
    assert changed(again) == 0


def test_the_kubeconfig_is_all_that_a_colleague_needs(direct: Ansible, api: Api, colleague: Colleague):
    """Every command acts in the namespace of the kubeconfig by default."""
    done = run(direct, "onboard", **colleague.variables())
    assert f"Its namespace is {colleague.name}." in " ".join(done.output.split())
    own = Ansible(direct.directory, {"K8S_AUTH_KUBECONFIG": str(colleague.file), "COLUMNS": "160"})
    manifest = direct.directory / "train.yaml"
    manifest.write_text(yaml.safe_dump(training()))

    def succeeds(playbook: str, **variables: Any) -> str:
        done = run(own, playbook, **variables)
        assert done.status == 0, done.output
        return done.output

    assert colleague.name in succeeds("submit", src=str(manifest), wait=True, wait_for="scheduled")
    assert api.get("job", "train", colleague.name)
    assert "1 job: " in succeeds("status")
    assert f"==> {colleague.name}/train" in succeeds("logs", name="train")
    assert colleague.name in succeeds("describe", name="train")
    for playbook in ("pause", "resume", "restart"):
        assert colleague.name in succeeds(playbook, name="train")
    for report in ("usage", "history"):
        assert f"Only namespace {colleague.name} is shown" in " ".join(succeeds(report).split())
    assert colleague.name in succeeds("delete", name="train", wait=True)
    assert api.get("job", "train", colleague.name) is None


def test_running_commands_is_granted_and_revoked_by_its_variable(direct: Ansible, colleague: Colleague):
    def may_run_commands() -> bool:
        own = Ansible(direct.directory, {"K8S_AUTH_KUBECONFIG": str(colleague.file)})
        rights = own.module("gpuctl_access_info", namespaces=[colleague.name]).result["rights"]
        (found,) = [each for each in rights if each["right"] == "run commands in containers"]
        return bool(found["allowed"])

    assert run(direct, "onboard", **colleague.variables(exec=True)).status == 0
    assert may_run_commands()
    again = run(direct, "onboard", **colleague.variables(exec=True))
    assert changed(again) == 0, again.output
    assert run(direct, "onboard", **colleague.variables()).status == 0
    assert not may_run_commands()


def test_what_belongs_to_a_colleague_goes_only_if_asked(ansible: Ansible, api: Api, colleague: Colleague):
    assert run(ansible, "onboard", **colleague.variables(storage="1Gi", **REGISTRY)).status == 0
    ansible.job(definition=training("others"), namespace=colleague.name)
    assert run(ansible, "offboard", **colleague.variables()).status == 0
    assert api.get("persistentvolumeclaim", "data", colleague.name)
    assert api.get("secret", "gpuctl-registry", colleague.name)
    gone = run(ansible, "offboard", **colleague.variables(delete_data=True, stop_jobs=True))
    assert gone.status == 0, gone.output
    eventually(lambda: api.get("persistentvolumeclaim", "data", colleague.name) is None)
    assert api.get("secret", "gpuctl-registry", colleague.name) is None
    assert not api.get("job", "others", colleague.name)["spec"].get("suspend"), "not a job of theirs"
    api.delete("job", "others", colleague.name)
    freed = run(ansible, "offboard", **colleague.variables(delete_namespaces=True, force=True))
    assert freed.status == 0, freed.output
    eventually(lambda: api.get("namespace", colleague.name) is None, 120)


def test_nothing_is_revoked_if_the_namespace_may_not_be_deleted(ansible: Ansible, api: Api, colleague: Colleague):
    assert run(ansible, "onboard", **colleague.variables(storage="1Gi")).status == 0
    refused = run(ansible, "offboard", **colleague.variables(delete_namespaces=True))
    assert refused.status != 0
    assert "its deletion would also delete claims data" in refused.output
    assert changed(refused) == 0
    again = run(ansible, "onboard", **colleague.variables(storage="1Gi"))
    assert changed(again) == 0, "the colleague still has access"
    assert api.get("namespace", colleague.name)


def test_the_jobs_of_a_colleague_are_paused_on_request(direct: Ansible, api: Api, colleague: Colleague):
    assert run(direct, "onboard", **colleague.variables()).status == 0
    own = Ansible(direct.directory, {"K8S_AUTH_KUBECONFIG": str(colleague.file)})
    own.job(definition=training(), namespace=colleague.name)
    direct.job(definition=training("others"), namespace=colleague.name)
    done = run(direct, "offboard", **colleague.variables(stop_jobs=True))
    assert done.status == 0, done.output
    assert api.get("job", "train", colleague.name)["spec"]["suspend"] is True
    assert not api.get("job", "others", colleague.name)["spec"].get("suspend")


def test_a_job_submitted_while_access_is_revoked_is_found(
    ansible: Ansible, direct: Ansible, api: Api, recorder: Recorder, colleague: Colleague, tmp_path: Path
):
    """The account submits a job at the last moment at which it can: it is paused with the others."""
    assert run(direct, "onboard", **colleague.variables()).status == 0
    (tmp_path / "own").mkdir()
    own = Ansible(tmp_path / "own", {"K8S_AUTH_KUBECONFIG": str(colleague.file)})
    assert own.job(definition=training(), namespace=colleague.name).changed
    late: list[TaskResult] = []

    def submit(request: Request) -> None:
        if request.method == "DELETE" and not late:
            late.append(own.job(definition=training("late"), namespace=colleague.name))

    recorder.before = submit
    done = run(ansible, "offboard", **colleague.variables(stop_jobs=True))
    assert done.status == 0, done.output
    assert late
    assert late[0].changed
    for name in ("train", "late"):
        assert api.get("job", name, colleague.name)["spec"]["suspend"] is True


def test_workloads_past_the_collection_are_named(direct: Ansible, api: Api, colleague: Colleague):
    assert run(direct, "onboard", **colleague.variables()).status == 0
    labels = {"app": "mine"}
    container = {"name": "a", "image": "registry.example.com/a:1"}
    pod = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    spec = {"selector": {"matchLabels": labels}, "template": pod}
    api.create("deployment", {"metadata": {"name": "web"}, "spec": spec}, colleague.name)
    disguised = {"runwhere.ai/job-type": "compute"}
    api.create("deployment", {"metadata": {"name": "like-a-job", "labels": disguised}, "spec": spec}, colleague.name)
    left = run(direct, "offboard", **colleague.variables())
    assert left.status == 0, left.output
    said = " ".join(left.output.split())
    assert f"had access: Deployment {colleague.name}/web, job {colleague.name}/like-a-job." in said
    assert "leaves them as they are" in said


@pytest.mark.parametrize("playbook", ["onboard", "offboard"])
def test_a_failure_half_way_says_what_is_done_and_what_is_left(
    playbook: str, direct: Ansible, api: Api, colleague: Colleague
):
    if playbook == "offboard":
        assert run(direct, "onboard", **colleague.variables()).status == 0
    colleague.file.write_text("not a kubeconfig of the module\n")
    more = {"delete_data": True} if playbook == "offboard" else {"gpu": 2}
    done = run(direct, playbook, **colleague.variables(**more))
    assert done.status != 0
    said = " ".join(done.output.split())
    assert "was not written by this module" in said
    left = {
        "onboard": "Left: write the kubeconfig.",
        "offboard": "Left: delete the kubeconfig, find the jobs of the account, delete the data.",
    }
    assert f"{playbook.title()}ing incomplete. The table above lists what was done. {left[playbook]}" in said
    account = api.get("serviceaccount", colleague.name, "gpuctl-system")
    assert bool(account) is (playbook == "onboard")
    colleague.file.unlink()
    again = run(direct, playbook, **colleague.variables(**more))
    assert again.status == 0, again.output


@pytest.mark.parametrize(("kind", "name"), [("user", "alice@example.com"), ("group", "/ml/team-a")])
def test_users_and_groups_of_an_identity_provider(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str, kind: str, name: str
):
    given = {"name": name, "account_kind": kind, "namespace": namespace, "kubeconfig": "theirs"}
    try:
        done = run(ansible, "onboard", **given)
        assert done.status == 0, done.output
        assert "The kubeconfig has no credentials" in done.output
        (subject,) = (
            obj["subjects"][0]
            for obj in api.list("rolebinding", namespace)
            if obj["roleRef"]["name"] == "gpuctl-submit"
        )
        assert (subject["kind"], subject["name"]) == (kind.title(), name)
        file = ansible.directory / "theirs"
        config = yaml.safe_load(file.read_text())
        assert config["users"][0]["user"] == {}
        assert config["contexts"][0]["context"]["namespace"] == namespace
        config["users"][0]["user"] = {"exec": {"command": "kubelogin", "apiVersion": "client.authentication.k8s.io/v1"}}
        file.write_text(file.read_text().splitlines()[0] + "\n" + yaml.safe_dump(config, sort_keys=False))
        recorder.clear()
        again = run(ansible, "onboard", **given)
        assert again.status == 0, again.output
        assert recorder.writes == []
        assert yaml.safe_load(file.read_text()) == config, "what its owner added is kept"
    finally:
        left = run(ansible, "offboard", **given)
    assert left.status == 0, left.output
    assert [obj for obj in api.list("rolebinding", namespace) if name in str(obj["subjects"])] == []


def test_a_new_account_of_the_same_name_gets_a_new_token(ansible: Ansible, api: Api, colleague: Colleague):
    assert run(ansible, "onboard", **colleague.variables()).status == 0
    former = colleague.token
    api.delete("serviceaccount", colleague.name, "gpuctl-system")
    eventually(lambda: api.get("serviceaccount", colleague.name, "gpuctl-system") is None)
    assert run(ansible, "onboard", **colleague.variables()).status == 0
    assert colleague.token != former


def test_the_token_of_an_account_is_not_passed_on_to_another_user(ansible: Ansible, colleague: Colleague):
    assert run(ansible, "onboard", **colleague.variables()).status == 0
    result = ansible.module("gpuctl_kubeconfig", kind="user", name="bob", dest=str(colleague.file))
    assert result.changed
    (user,) = yaml.safe_load(colleague.file.read_text())["users"]
    assert user == {"name": "bob", "user": {}}


def test_a_shorter_life_is_granted_at_once(ansible: Ansible, colleague: Colleague):
    assert run(ansible, "onboard", **colleague.variables(token_days=90)).status == 0
    former = colleague.token
    assert changed(run(ansible, "onboard", **colleague.variables(token_days=90))) == 0
    assert changed(run(ansible, "onboard", **colleague.variables(token_days=10))) == 1
    assert colleague.token != former


def test_credentials_of_a_docker_config_file(ansible: Ansible, api: Api, colleague: Colleague):
    auths = {
        name: {"auth": base64.b64encode(f"me:{PASSWORD}".encode()).decode()} for name in ("a.example", "b.example")
    }
    (ansible.directory / "config.json").write_text(json.dumps({"auths": auths, "credsStore": "desktop"}))
    done = run(ansible, "onboard", "-vvv", name=colleague.name, docker_config="config.json")
    assert done.status == 0, done.output
    pull = api.get("secret", "gpuctl-registry", colleague.name)
    assert json.loads(base64.b64decode(pull["data"][".dockerconfigjson"])) == {"auths": auths}
    assert auths["a.example"]["auth"] not in done.output

    auths["b.example"] = {"auth": base64.b64encode(b"me:another-secret").decode()}
    (ansible.directory / "config.json").write_text(json.dumps({"auths": auths}))
    update = run(ansible, "onboard", "--diff", name=colleague.name, docker_config="config.json")
    assert "'******** (changed)'" in update.output
    assert changed(update) == 1


def test_the_password_stays_secret_in_a_module_process(ansible: Ansible, namespace: str):
    """Where the module fails, too."""
    slow = Ansible(ansible.directory, {**ansible.environment, "GPUCTL_FAST_PATH": "0"})
    registry = {"server": "registry.example.com", "username": "robot", "password": PASSWORD}
    for place in (namespace, "gpuctl-nowhere/.."):
        done = slow.module("gpuctl_workspace", namespace=place, registry=registry, arguments=("-vvv",))
        assert done.failed is (place != namespace)
        assert PASSWORD not in done.screen + json.dumps(done.result)


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, "Missing variable: gpuctl_name. Add -e gpuctl_name=alice."),
        (
            {"name": "a", "account_kind": "robot"},
            "gpuctl_account_kind: unknown value: robot. Use one of: service_account, user, group.",
        ),
        (
            {"name": "a@b.c", "account_kind": "user"},
            "No namespace specified. Set gpuctl_namespace to the namespace of a@b.c.",
        ),
        (
            {"name": "a", "level": "administer", "namespace": "b"},
            "onboard grants the level administer in the whole cluster only. Omit gpuctl_namespace.",
        ),
        (
            {"name": "a", "level": "read", "exec": True},
            "gpuctl_exec requires the level submit. Omit it, or set gpuctl_level=submit.",
        ),
        (
            {"name": "a", "registry": "r.example"},
            "No user or password for r.example specified. Set gpuctl_registry_username, and the environment variable "
            "GPUCTL_REGISTRY_PASSWORD.",
        ),
        ({"name": "a", "storage": "lots"}, "claim.size: not a size: 'lots'. Give one such as 500Gi."),
        ({"name": "A b", "namespace": "b", "level": "read"}, "gpuctl_name: invalid name: A b. Use lower"),
        ({"name": "a", "kubeconfig": "no/where"}, "gpuctl_kubeconfig: directory not found: "),
        ({"name": "a", "namespace": "kube-system"}, "namespace: reserved for Kubernetes itself: kube-system."),
    ],
)
def test_bad_input_is_one_sentence_before_anything_is_written(
    ansible: Ansible, recorder: Recorder, variables: dict[str, Any], expected: str
):
    done = run(ansible, "onboard", **variables)
    assert expected in message(done)
    assert recorder.writes == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"days": 0}, "days: 0 is out of range. Use 1 to 3650."),
        ({"days": 5, "renew_days": 5}, "renew_days: 5 is out of range. Use less than days, 5."),
        ({"server": "10.0.0.1"}, "server: not the URL of an API server: 10.0.0.1."),
        ({"job_namespace": "a/b"}, "job_namespace: invalid namespace: 'a/b'."),
        ({"kind": "group", "name": "system:authenticated"}, "name: reserved for Kubernetes itself: system:authenti"),
        ({"dest": "/nowhere/file"}, "Create the directory /nowhere first."),
        ({}, "service account nobody not found in namespace gpuctl-system. Create it with gpuctl_rbac."),
    ],
)
def test_what_no_kubeconfig_can_be_written_for(
    ansible: Ansible, recorder: Recorder, options: dict[str, Any], expected: str
):
    result = ansible.module("gpuctl_kubeconfig", **{"name": "nobody", "dest": "file", **options})
    assert result.failed
    assert expected in result.message
    assert recorder.writes == []
    assert not (ansible.directory / "file").exists()


def test_a_file_of_another_user_is_neither_replaced_nor_deleted(ansible: Ansible, recorder: Recorder):
    file = ansible.directory / "config"
    file.write_text("apiVersion: v1\nkind: Config\n")
    for state in ("present", "absent"):
        result = ansible.module("gpuctl_kubeconfig", name="nobody", dest=str(file), state=state)
        assert "was not written by this module. Name another file." in result.message
    assert file.read_text() == "apiVersion: v1\nkind: Config\n"
    assert recorder.writes == []


@pytest.mark.parametrize(
    ("kind", "obj"),
    [
        ("secret", {"metadata": {"name": "gpuctl-registry"}, "data": {}}),
        (
            "persistentvolumeclaim",
            {
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            },
        ),
    ],
)
def test_unmanaged_objects_are_left_alone(
    ansible: Ansible, api: Api, namespace: str, recorder: Recorder, kind: str, obj: dict[str, Any]
):
    made = api.create(kind, obj, namespace)
    options = {"claim": {"size": "1Gi"}, "registry": {"server": "r", "username": "u", "password": PASSWORD}}
    result = ansible.module("gpuctl_workspace", namespace=namespace, **options)
    assert "exists and does not belong to gpuctl" in result.message
    assert recorder.writes == []
    assert not ansible.module("gpuctl_workspace", namespace=namespace, state="absent").changed
    now = api.get(kind, obj["metadata"]["name"], namespace)
    assert now["metadata"]["uid"] == made["metadata"]["uid"]


def test_a_claim_keeps_what_kubernetes_cannot_change(ansible: Ansible, api: Api, namespace: str):
    given = {"size": "2Gi", "access_mode": "ReadWriteOnce", "storage_class": "fast"}
    assert ansible.module("gpuctl_workspace", namespace=namespace, claim=given).changed
    assert not ansible.module("gpuctl_workspace", namespace=namespace, claim={"size": "2Gi"}).changed
    for other in ({"access_mode": "ReadWriteMany"}, {"storage_class": "other"}):
        for check in (True, False):
            result = ansible.module(
                "gpuctl_workspace", namespace=namespace, claim={"size": "2Gi", **other}, check=check
            )
            assert result.failed
            assert "A claim keeps its access mode and storage class, and grows once it is bound." in result.message
    assert api.get("persistentvolumeclaim", "data", namespace)["spec"]["storageClassName"] == "fast"


def test_a_token_for_jobs_is_written_once_and_shown_nowhere(
    ansible: Ansible, api: Api, recorder: Recorder, namespace: str
):
    token = "hf-s3cret-t0ken"

    def write(**tokens: str | None) -> TaskResult:
        recorder.clear()
        return ansible.module("gpuctl_workspace", namespace=namespace, tokens=tokens, arguments=("-vvv", "--diff"))

    def stored() -> dict[str, str]:
        data = api.get("secret", "gpuctl-tokens", namespace)["data"]
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    first = write(huggingface=token, wandb="w4ndb-key")
    assert first.changed, first.message
    assert first.result["results"][0]["token_secret"] == "gpuctl-tokens"
    again = write(huggingface=token)
    assert not again.changed
    assert recorder.writes == []
    assert stored() == {"huggingface": token, "wandb": "w4ndb-key"}
    changed = write(huggingface=f"{token}-2", wandb=None)
    assert changed.changed
    assert stored() == {"huggingface": f"{token}-2"}
    for task in (first, again, changed):
        assert token not in task.screen
        assert base64.b64encode(token.encode()).decode()[:12] not in task.screen

    assert ansible.module("gpuctl_workspace", namespace=namespace, state="absent").changed
    assert api.get("secret", "gpuctl-tokens", namespace) is None


def test_what_an_old_role_does_not_let_read_is_kept_with_a_warning(ansible: Ansible, api: Api, namespace: str):
    """The roles of former versions name the Secret of registries alone, and no quotas."""
    given = {"claim": {"size": "1Gi"}, "tokens": {"hf": "x"}, "object_counts": {"configmaps": 300}}
    assert ansible.module("gpuctl_workspace", namespace=namespace, **given).changed
    user = "gpuctl-test-former-administrator"
    claims = {"apiGroups": [""], "resources": ["persistentvolumeclaims"], "verbs": ["get", "delete"]}
    registry = {"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["gpuctl-registry"], "verbs": ["get"]}
    api.create("role", {"metadata": {"name": "former"}, "rules": [claims, registry]}, namespace)
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "former"}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}
    binding = {"metadata": {"name": "former"}, "roleRef": reference, "subjects": [subject]}
    api.create("rolebinding", binding, namespace)

    done = ansible.module("gpuctl_workspace", namespace=namespace, state="absent", impersonate_user=user)
    assert done.changed, done.message
    said = " ".join(done.screen.split())
    assert f"Secret gpuctl-tokens in namespace {namespace} is kept" in said
    assert f"ResourceQuota gpuctl-object-counts in namespace {namespace} is kept" in said
    assert "run gpuctl_rbac for an administrator's account (level administer)" in said
    assert api.get("secret", "gpuctl-tokens", namespace)


@pytest.mark.parametrize(
    ("tokens", "words"),
    [
        ({"hugging face": "b"}, "tokens: invalid name 'hugging face'"),
        ({"a": {"b": "s3cret-inside"}}, "tokens: the value of a is not text"),
    ],
)
def test_a_token_that_cannot_be_is_refused(
    ansible: Ansible, recorder: Recorder, namespace: str, tokens: dict[str, Any], words: str
):
    recorder.clear()
    refused = ansible.module("gpuctl_workspace", namespace=namespace, tokens=tokens, arguments=("-vvv",))
    assert refused.failed
    assert words in refused.message
    assert "s3cret-inside" not in refused.screen
    assert recorder.writes == []


def test_the_playbook_workspace_provides_what_the_messages_name(ansible: Ansible, api: Api, namespace: str):
    ansible.environment["GPUCTL_TOKEN"] = "hf_t-0p5ecret"
    given = ["-e", f"gpuctl_namespace={namespace}"]
    playbook = ("ansible-playbook", "runwhere.gpuctl.workspace", *given)
    claim = ansible.run(*playbook, "-e", "gpuctl_claim=datasets", "-e", "gpuctl_storage=10Gi")
    assert claim.status == 0, claim.output
    assert api.get("persistentvolumeclaim", "datasets", namespace)
    token = ansible.run(*playbook, "-e", "gpuctl_token=hf", "--diff", "-vvv")
    assert token.status == 0, token.output
    assert "hf_t-0p5ecret" not in token.output
    assert api.get("secret", "gpuctl-tokens", namespace)["data"].keys() == {"hf"}

    ansible.environment["GPUCTL_TOKEN"] = ""
    without = ansible.run(*playbook, "-e", "gpuctl_token=other")
    assert without.status != 0
    assert "Set the environment variable GPUCTL_TOKEN" in " ".join(without.output.split())
    assert api.get("secret", "gpuctl-tokens", namespace)["data"].keys() == {"hf"}


def test_tokens_on_the_command_line(ansible: Ansible, api: Api, namespace: str):
    playbook = ("ansible-playbook", "runwhere.gpuctl.workspace", "-e", f"gpuctl_namespace={namespace}")
    given = ansible.run(*playbook, "-e", 'gpuctl_tokens={"wandb":"w_t-0p5ecret"}')
    assert given.status == 0, given.output
    assert api.get("secret", "gpuctl-tokens", namespace)["data"].keys() == {"wandb"}

    cut = ansible.run(*playbook, "-e", 'gpuctl_tokens={"hf": "h_t-0p5ecret"}')
    assert cut.status != 0
    assert "Ansible cuts a value of -e at its first space. Give it as JSON:" in " ".join(cut.output.split())
    assert "h_t-0p5ecret" not in cut.output
    unnamed = ansible.run(*playbook, "-e", "gpuctl_tokens=w_t-0p5ecret")
    assert unnamed.status != 0
    assert "Wrong value of gpuctl_tokens: names with their values expected" in " ".join(unnamed.output.split())
    assert "0p5ecret" not in unnamed.output
