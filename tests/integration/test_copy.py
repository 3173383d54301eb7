# SPDX-License-Identifier: BSD-2-Clause
"""gpuctl_copy, from its options to the files in a container: the simulated cluster runs the commands for it."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.copy.copy import MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.jobs.job import MODULE as JOB_MODULE
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task, run_task
from kubesim import LAB_USER_TOKEN, Cluster, Fault

from .ansible import Ansible
from .api import eventually
from .cut_proxy import tcp_proxy
from .manifests import compute, notebook

TOOLS = ("awk", "cat", "chmod", "df", "find", "head", "mkdir", "mv", "readlink", "rm", "sh", "stat", "tar", "xargs")


@dataclass
class Copies:
    """Runs copies against a cluster; ``options`` are those of the connection, and defaults."""

    cluster: Cluster
    root: Path
    options: dict[str, Any]
    warned: list[str] = field(default_factory=list)

    def __call__(self, *, check: bool = False, **options: Any) -> dict[str, Any]:
        return self.run(MODULE, {"name": "lab", "state": "to_pod", "container": "main", **options}, check=check)

    def submit(self, *manifests: dict[str, Any]) -> None:
        result = self.run(JOB_MODULE, {"definition": list(manifests), "namespace": "default", "wait": True})
        assert not result.get("failed"), result

    def run(self, module: Any, given: dict[str, Any], *, check: bool = False) -> dict[str, Any]:
        spec = module.arguments()["argument_spec"]
        params = {**{name: facts.get("default") for name, facts in spec.items()}, **self.options, **given}
        self.warned.clear()
        task = Task(module.options.from_params(params), params, check, self.warned.append, lambda _: None, environ={})
        return run_task(task, module)

    def container(self, pod: str = "lab-0") -> Path:
        """The root directory of its container."""
        found = self.cluster.call(lambda: self.cluster.registry.get("Pod", "default", pod))
        place = self.root / found["metadata"]["uid"] / "main"
        place.mkdir(parents=True, exist_ok=True)
        return place

    def execs(self) -> int:
        """The commands that were run since the last call."""
        counted = self.cluster.requests.counts().get("get pods/exec", 0)
        self.cluster.call(self.cluster.requests.reset)
        return int(counted)


@pytest.fixture(scope="module")
def _copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Copies]:
    root = tmp_path_factory.mktemp("containers")
    with Cluster(nodes=1, exec_root=root).running() as cluster:
        copies = Copies(cluster, root, {"host": cluster.url, "api_key": cluster.token, "retries": 1})
        copies.submit(notebook(resources={"gpu": 0}))
        yield copies


@pytest.fixture
def copies(_copies: Copies) -> Iterator[Copies]:
    _copies.execs()
    yield replace(_copies)
    _copies.cluster.call(_copies.cluster.faults.clear)
    shutil.rmtree(_copies.container())
    _copies.container()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A directory with everything that can be in one."""
    root = tmp_path / "data"
    (root / "sub" / "deep").mkdir(parents=True)
    for name, text, mode in (
        ("a.txt", "hello\n", 0o640),
        ("empty", "", 0o600),
        ("sub/with blank", "x", 0o755),
        ("sub/back\\slash", "y", 0o644),
        ("sub/deep/größe", "z" * 200_000, 0o644),
        ("-n", "a name like an option", 0o644),
    ):
        (root / name).write_text(text)
        (root / name).chmod(mode)
    (root / "link").symlink_to("a.txt")
    (root / "sub" / "up").symlink_to("../a.txt")
    return root


def contents(root: Path) -> dict[str, Any]:
    """Files with their permissions, links and directories."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = os.readlink(path)
        elif path.is_dir():
            found[name] = "directory"
        else:
            found[name] = (path.read_bytes(), stat.S_IMODE(path.stat().st_mode))
    return found


# -- both directions -------------------------------------------------------------------------------------------------


def test_a_directory_goes_to_a_pod_and_back(copies: Copies, data: Path, tmp_path: Path):
    there = copies.container() / "work" / "data"
    first = copies(local_path=str(data), remote_path="/work/data")
    assert (first["changed"], first["pod"], first["namespace"]) == (True, "lab-0", "default")
    assert first["msg"] == "8 files and 3 directories copied (200029 bytes), 0 unchanged"
    assert contents(there) == contents(data)
    assert copies.execs() == 2

    again = copies(local_path=f"{data}/", remote_path="/work/data/")
    assert (again["changed"], again["files"], again["diff"]) == (False, [], [])
    assert again["msg"] == "8 files unchanged"
    assert copies.execs() == 1, "nothing is transferred"

    back = tmp_path / "new" / "back"
    fetched = copies(local_path=str(back), remote_path="/work/data", state="from_pod")
    assert fetched["changed"]
    assert contents(back) == contents(data)
    assert copies.execs() == 2
    assert not copies(local_path=str(back), remote_path="/work/data", state="from_pod")["changed"]
    assert copies.execs() == 1
    assert copies.warned == []


@pytest.mark.parametrize("state", ["to_pod", "from_pod"])
def test_only_what_differs_is_transferred(copies: Copies, data: Path, tmp_path: Path, state: str):
    there = copies.container() / "data"
    source, dest = (data, there) if state == "to_pod" else (there, data)
    copies(local_path=str(data), remote_path="/data")
    (source / "a.txt").write_text("HELLO\n")
    (source / "empty").chmod(0o644)
    (source / "sub" / "new").write_text("1234")
    (source / "sub" / "up").unlink()
    (source / "sub" / "up").symlink_to("deep")
    (source / "sub" / "gone").mkdir()
    (dest / "theirs").write_text("stays")

    options = {"local_path": str(data), "remote_path": "/data", "state": state}
    before = contents(dest)
    predicted = copies(check=True, **options)
    assert contents(dest) == before
    done = copies(**options)
    for result in (predicted, done):
        assert result["changed"]
        assert result["files"] == ["a.txt", "empty", "sub/gone", "sub/new", "sub/up"]
        assert result["size"] == 10
    assert done["diff"] == predicted["diff"]
    assert predicted["msg"] == "4 files and 1 directory would be copied (10 bytes), 5 unchanged"
    (diff,) = done["diff"]
    assert "empty: 0 bytes, mode 0600, sha256 e3b0c44298fc\n" in diff["before"]
    assert "empty: 0 bytes, mode 0644, sha256 e3b0c44298fc\n" in diff["after"]
    assert "sub/new: 4 bytes, mode 0644" in diff["after"]
    assert "sub/up: link to deep\n" in diff["after"]
    assert contents(dest) == {**contents(source), "theirs": (b"stays", 0o644)}
    assert not copies(**options)["changed"]


FILES = {
    "a new file": ("/x/y/name", "x/y/name"),
    "into a directory": ("/there", "there/a.txt"),
    "into a new directory": ("/new/", "new/a.txt"),
    "into a linked directory": ("/link", "there/a.txt"),
    "over a file": ("/there/old", "there/old"),
    "over a link to a file": ("/there/oldlink", "there/oldlink"),
    "into the working directory": ("name", "name"),
    "into the working directory itself": (".", "a.txt"),
}


@pytest.mark.parametrize(("remote", "expected"), FILES.values(), ids=FILES)
def test_a_file_to_a_pod(copies: Copies, data: Path, remote: str, expected: str):
    root = copies.container()
    (root / "there").mkdir()
    (root / "there" / "old").write_text("old")
    (root / "there" / "oldlink").symlink_to("old")
    (root / "link").symlink_to("there")
    options = {"local_path": str(data / "link"), "remote_path": remote}  # a link to a.txt
    expected = expected.replace("a.txt", "link")
    result = copies(**options)
    assert result["changed"], result
    assert (root / expected).read_text() == "hello\n"
    assert not (root / expected).is_symlink()
    assert stat.S_IMODE((root / expected).stat().st_mode) == 0o640
    assert not copies(**options)["changed"]


@pytest.mark.parametrize(
    ("local", "expected"), [("name", "name"), ("x/y/name", "x/y/name"), ("there", "there/a.txt"), ("new/", "new/a.txt")]
)
def test_a_file_from_a_pod(copies: Copies, tmp_path: Path, local: str, expected: str):
    root = copies.container()
    (root / "data").mkdir()
    (root / "data" / "a.txt").write_text("hello")
    (root / "data" / "a.txt").chmod(0o640)
    (tmp_path / "there").mkdir()
    options = {"local_path": f"{tmp_path}/{local}", "remote_path": "/data/a.txt", "state": "from_pod"}
    result = copies(**options)
    assert result["changed"], result
    assert (tmp_path / expected).read_text() == "hello"
    assert stat.S_IMODE((tmp_path / expected).stat().st_mode) == 0o640
    assert not copies(**options)["changed"]


def test_what_cannot_be_copied_is_named(copies: Copies, tmp_path: Path):
    for root in (tmp_path / "data", copies.container() / "data"):
        root.mkdir()
        (root / "a").write_text("a")
        (root / "out").symlink_to("/etc/passwd")
        (root / "up").symlink_to("../secret")
        os.mkfifo(root / "pipe")
    for state, remote in (("to_pod", "/new"), ("from_pod", "/data")):
        result = copies(local_path=str(tmp_path / "data"), remote_path=remote, state=state)
        assert result["not_copied"] == ["out", "pipe", "up"]
        assert copies.warned == [
            "Not copied: out, pipe, up. Only files, directories and links between them can be copied."
        ]
    assert list(contents(copies.container() / "new")) == ["a"]


def test_servers_that_cannot_close_stdin(copies: Copies, data: Path):
    copies.cluster.exec_protocols = ("v4.channel.k8s.io",)
    try:
        result = copies(local_path=str(data), remote_path="/data")
    finally:
        copies.cluster.exec_protocols = ("v5.channel.k8s.io", "v4.channel.k8s.io")
    assert result["changed"], result
    assert contents(copies.container() / "data") == contents(data)


# -- broken connections, damaged files -------------------------------------------------------------------------------


@pytest.mark.parametrize("silent", [False, True], ids=["broken", "silent"])
@pytest.mark.parametrize("state", ["to_pod", "from_pod"])
def test_a_connection_that_ends_leaves_the_destination(copies: Copies, tmp_path: Path, state: str, silent: bool):
    local, there = tmp_path / "file", copies.container() / "file"
    source, dest = (local, there) if state == "to_pod" else (there, local)
    source.write_bytes(os.urandom(3_000_000 if silent else 30_000_000))
    dest.write_text("old")
    with tcp_proxy(copies.cluster.url) as proxy:
        limit = "up" if state == "to_pod" else "down"
        setattr(proxy, limit, 1_000_000)
        proxy.silent = silent
        copies.options = {**copies.options, "host": proxy.url, "request_timeout": 1 if silent else 30}
        result = copies(local_path=str(local), remote_path="/file", state=state)
    assert result["failed"], result
    assert result["msg"].startswith("lost the connection to the container: ")
    # The proxy that falls silent takes everything, so that the container may have it.
    unknown = silent and state == "to_pod"
    assert bool(result.get("changed")) == unknown
    outcome = "It is not known whether the files were copied." if unknown else "Nothing was copied."
    assert result["msg"].endswith(f" {outcome} Run the task again.")
    eventually(lambda: [path.name for path in dest.parent.iterdir()] == [dest.name])
    assert dest.read_text() == "old"
    copies.options = {**copies.options, "host": copies.cluster.url}
    assert copies(local_path=str(local), remote_path="/file", state=state)["changed"]
    assert dest.read_bytes() == source.read_bytes()


@pytest.mark.parametrize("step", ["mkdtemp", "symlink_to"])
def test_local_files_that_cannot_be_written(copies: Copies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str):
    (copies.container() / "data").mkdir()
    (copies.container() / "data" / "a").write_text("x")
    (copies.container() / "data" / "link").symlink_to("a")

    def fail(*_arguments: object, **_options: object) -> None:
        raise PermissionError(1, "Operation not permitted", "/some/where")

    monkeypatch.setattr(tempfile if step == "mkdtemp" else Path, step, fail)
    result = copies(local_path=str(tmp_path / "b"), remote_path="/data", state="from_pod")
    begun = step == "symlink_to"
    outcome = "Some files may have been copied." if begun else "Nothing was copied."
    assert result["msg"] == f"local files cannot be copied: /some/where: Operation not permitted. {outcome}"
    assert bool(result.get("changed")) == begun == (tmp_path / "b" / "a").exists()
    assert [path.name for path in tmp_path.iterdir()] == ["b"] * begun


def test_a_list_that_does_not_arrive(copies: Copies, tmp_path: Path):
    with tcp_proxy(copies.cluster.url) as proxy:
        copies.options = {**copies.options, "host": proxy.url}
        proxy.down = 7_000  # the list of pods, but not that of files
        (copies.container() / "data").mkdir()
        for number in range(100):
            (copies.container() / "data" / str(number)).write_text("x")
        result = copies(local_path=str(tmp_path / "new"), remote_path="/data", state="from_pod")
    assert result["msg"].startswith("lost the connection to the container: ")
    assert result["msg"].endswith(" Nothing was copied. Run the task again.")
    assert not (tmp_path / "new").exists()


def test_an_answer_that_does_not_arrive_is_not_known(copies: Copies, tmp_path: Path):
    """All of stdin has been sent: the container may have put the files in place."""
    (tmp_path / "file").write_text("new")
    tools, moved = _tools(copies, "sha256sum", "touch"), tmp_path / "moved"
    (tools / "mv").unlink()
    (tools / "mv").write_text(f'#!/bin/sh\n{shutil.which("mv")} "$@" && touch {moved}\n')
    (tools / "mv").chmod(0o755)
    copies.submit(_with_path("unheard", tools))
    with tcp_proxy(copies.cluster.url) as proxy:
        proxy.until = moved
        copies.options = {**copies.options, "host": proxy.url}
        result = copies(name="unheard", local_path=str(tmp_path / "file"), remote_path="/file")
    assert result["failed"]
    assert result["changed"]
    assert result["msg"].endswith(" It is not known whether the files were copied. Run the task again.")
    copies.options = {**copies.options, "host": copies.cluster.url}
    again = copies(name="unheard", local_path=str(tmp_path / "file"), remote_path="/file")
    assert again["msg"] == "1 file unchanged"


def test_a_damaged_file_is_not_put_in_place(copies: Copies, tmp_path: Path):
    (tmp_path / "file").write_text("new")
    tools = _tools(copies)
    (tools / "sha256sum").write_text(f"#!/bin/sh\necho {'0' * 64}  -\n")
    (tools / "sha256sum").chmod(0o755)
    copies.submit(_with_path("damaged", tools))
    result = copies(name="damaged", local_path=str(tmp_path / "file"), remote_path="/file")
    assert result["failed"]
    pod = result["msg"].partition("pod ")[2].partition(".")[0]
    assert result["msg"] == (
        f"the files arrived damaged in container main of pod {pod}. Nothing was copied. Run the task again."
    )
    assert list(copies.container(pod).iterdir()) == []


HOSTILE = {
    "more than announced": "cat /dev/zero | head -c 100000",
    "less than announced": "echo",
    "other content": 'printf "%0100d" 0',
}


@pytest.mark.parametrize("cat", HOSTILE.values(), ids=HOSTILE)
def test_content_that_is_not_the_listed_one_is_refused(copies: Copies, tmp_path: Path, cat: str):
    tools = _tools(copies, "sha256sum")
    (tools / "cat").unlink()
    (tools / "cat").write_text(f"#!/bin/sh\nPATH={os.environ['PATH']}\n{cat}\n")
    (tools / "cat").chmod(0o755)
    copies.submit(_with_path("hostile", tools))
    pod = _pod(copies, "hostile")
    (copies.container(pod) / "file").write_text("1" * 100)
    (tmp_path / "file").write_text("old")
    result = copies(name="hostile", local_path=str(tmp_path / "file"), remote_path="/file", state="from_pod")
    assert result["msg"] == "file changed while it was copied. Nothing was copied. Run the task again."
    assert (tmp_path / "file").read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_container_cannot_name_files_elsewhere(copies: Copies, tmp_path: Path):
    tools = _tools(copies, "sha256sum")
    (tools / "stat").unlink()
    (tools / "stat").write_text("#!/bin/sh\necho 's 81a4 5 ./../evil'\n")
    (tools / "stat").chmod(0o755)
    copies.submit(_with_path("traversal", tools))
    (copies.container(_pod(copies, "traversal")) / "data").mkdir()
    dest = tmp_path / "a" / "b"
    result = copies(name="traversal", local_path=str(dest), remote_path="/data", state="from_pod")
    assert "cannot list files: not a name below the directory: './../evil'." in result["msg"]
    assert list(tmp_path.iterdir()) == []


LISTS = {
    "another file as well": ("s 81a4 1 ./file\\ns 81a4 5 ./.bashrc", "not the file that was asked for: '.bashrc'"),
    "another file": ("s 81a4 5 ./.bashrc", "not the file that was asked for: '.bashrc'"),
    "a directory of that name": ("s 41ed 0 ./file", "'file' is missing or no file"),
    "nothing": ("", "'file' is missing or no file"),
}


@pytest.mark.parametrize(("listed", "message"), LISTS.values(), ids=LISTS)
def test_a_container_cannot_send_another_file_than_the_one_asked_for(
    copies: Copies, tmp_path: Path, listed: str, message: str
):
    tools = _tools(copies)
    (tools / "stat").unlink()
    (tools / "stat").write_text(f"#!/bin/sh\nprintf '{listed}\\n'\n")
    (tools / "stat").chmod(0o755)
    copies.submit(_with_path("beside", tools))
    (copies.container(_pod(copies, "beside")) / "file").write_text("1")
    result = copies(name="beside", local_path=str(tmp_path), remote_path="/file", state="from_pod")
    assert f"cannot list files: {message}." in result["msg"]
    assert list(tmp_path.iterdir()) == []


# -- containers ------------------------------------------------------------------------------------------------------


def _tools(copies: Copies, *more: str) -> Path:
    """A directory with the programs that a copy needs."""
    number = len(list(copies.root.glob("bin*")))
    directory = copies.root / f"bin{number}"
    directory.mkdir()
    for tool in (*TOOLS, *more):
        (directory / tool).symlink_to(shutil.which(tool) or "/missing")
    return directory


def _with_path(name: str, path: Path) -> dict[str, Any]:
    return compute(name, environment={"env": {"PATH": str(path)}})


def _pod(copies: Copies, job: str) -> str:
    pods = copies.cluster.call(lambda: copies.cluster.registry.list("Pod", "default"))
    (name,) = (pod["metadata"]["name"] for pod in pods if pod["metadata"]["labels"]["app"] == job)
    return str(name)


def test_a_container_without_checksums(copies: Copies, data: Path, tmp_path: Path):
    copies.submit(_with_path("plain", _tools(copies)))
    for state, local in (*[("to_pod", data)] * 2, *[("from_pod", tmp_path / "b")] * 2):
        result = copies(name="plain", local_path=str(local), remote_path="/data", state=state)
        assert result["changed"], result
        assert "lacks sha256sum. Files cannot be compared" in copies.warned[0]
    assert contents(tmp_path / "b") == contents(data)


def test_a_container_without_the_programs(copies: Copies, data: Path):
    tools = _tools(copies)
    (tools / "tar").unlink()
    (tools / "xargs").unlink()
    copies.submit(_with_path("poor", tools), _with_path("shell-less", tools / "nothing"))
    options = {"local_path": str(data), "remote_path": "/data"}
    assert copies(name="poor", **options)["msg"] == (
        f"container main of pod {_pod(copies, 'poor')} lacks tar, xargs. "
        "Use an image with sh, tar, find, stat and xargs."
    )
    assert copies(name="shell-less", **options)["msg"] == (
        f"container main of pod {_pod(copies, 'shell-less')} has no shell. "
        "Use an image with sh, tar, find, stat and xargs."
    )


def test_one_of_several_pods(copies: Copies, data: Path):
    copies.submit(compute("web", service={"replicas": 2}))
    options = {"name": "web", "local_path": str(data), "remote_path": "/data"}
    unclear = copies(**options)
    assert unclear["msg"].startswith(
        "job web in namespace default: 2 pods are running. Set pod to one of them, such as "
    )
    chosen = copies(**options, pod="1")
    assert contents(copies.container(chosen["pod"]) / "data") == contents(data)
    unknown = copies(**options, pod="2")
    assert unknown["msg"].startswith("job web in namespace default: pod 2 not found. Pods: ")


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "no such job": ({"name": "nobody"}, "job nobody not found in namespace default."),
    "no such container": (
        {"container": "sidecar"},
        "job lab in namespace default: container sidecar not found. Containers: main.",
    ),
    "no such file here": ({"local_path": "/no/such"}, "local_path not found: /no/such."),
    "a device here": ({"local_path": "/dev/null"}, "local_path is neither a file nor a directory: /dev/null."),
    "no path": ({"remote_path": ""}, "remote_path is not a path. Give the path of a file or directory."),
    "no such file there": (
        {"remote_path": "/no/such", "state": "from_pod"},
        "remote_path not found in container main of pod lab-0: /no/such.",
    ),
    "a file in the place of the directory there": (
        {"remote_path": "/file"},
        "remote_path is not a directory: /file. Remove it, or name another path.",
    ),
    "a file in the place of a directory in it": (
        {"remote_path": "/conflict"},
        "sub is a directory, but a file at the destination. Remove it there first.",
    ),
}


@pytest.mark.parametrize(("options", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes(copies: Copies, data: Path, options: dict[str, Any], message: str):
    (copies.container() / "file").write_text("a file")
    (copies.container() / "conflict").mkdir()
    (copies.container() / "conflict" / "sub").write_text("a file")
    result = copies(**{"local_path": str(data), "remote_path": "/data", **options})
    assert result["failed"]
    assert result["msg"].startswith(message)


def test_a_directory_does_not_replace_a_local_file(copies: Copies, tmp_path: Path):
    (copies.container() / "data").mkdir()
    (tmp_path / "file").write_text("old")
    result = copies(local_path=str(tmp_path / "file"), remote_path="/data", state="from_pod")
    assert result["msg"].startswith("local_path is not a directory: ")


def test_a_container_that_is_not_running(copies: Copies, data: Path):
    copies.cluster.call(lambda: copies.cluster.kubelet.behave(labels={"app": "stuck"}, stuck=True))
    copies.run(JOB_MODULE, {"definition": compute("stuck"), "namespace": "default"})
    options = {"name": "stuck", "local_path": str(data), "remote_path": "/data"}
    message = copies(**options)["msg"]
    assert message.startswith("job stuck in namespace default: container main of pod stuck-")
    assert message.endswith(" is not running (Pending). Wait until it is ready.")


def test_a_container_whose_image_cannot_be_pulled(copies: Copies, data: Path):
    copies.cluster.call(lambda: copies.cluster.kubelet.behave(labels={"app": "pulls"}, pull_error="no such tag"))
    copies.run(JOB_MODULE, {"definition": compute("pulls"), "namespace": "default", "wait": True, "wait_timeout": 20})
    message = copies(name="pulls", local_path=str(data), remote_path="/data")["msg"]
    assert " is not running: image " in message
    assert "cannot be pulled: no such tag. Check environment.image" in message


def test_an_account_that_may_not_run_commands(copies: Copies, data: Path):
    """Since Kubernetes 1.35, the verb get is not enough."""
    cluster = copies.cluster
    subject = {"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "lab-user"}
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]}]
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    metadata = {"name": "reader", "namespace": "default"}
    cluster.call(lambda: cluster.registry.create("Role", {"metadata": metadata, "rules": rules}))
    cluster.call(
        lambda: cluster.registry.create("RoleBinding", {"metadata": metadata, "roleRef": role, "subjects": [subject]})
    )
    for verbs in ([], ["get"]):
        allowed = [{"apiGroups": [""], "resources": ["pods/exec"], "verbs": verbs}] if verbs else []
        cluster.call(
            lambda allowed=allowed: cluster.registry.modify(
                "Role", "default", "reader", lambda obj: obj.update(rules=rules + allowed)
            )
        )
        result = copies(local_path=str(data), remote_path="/data", api_key=LAB_USER_TOKEN)
        assert result["msg"] == (
            f"running commands in container main of pod lab-0 is forbidden. Missing permission: "
            f"{'create' if verbs else 'get'} pods/exec in namespace default. The level submit of gpuctl_rbac has it "
            f"with exec=true. An administrator grants it with: ansible localhost -m runwhere.gpuctl.gpuctl_rbac -a "
            f'"kind=user name={"USER" if verbs else "lab-user"} level=submit namespaces=default exec=true append=true"'
        )


# -- the way to the server -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["busy", "unavailable", "reset"])
def test_a_single_fault_does_not_matter(copies: Copies, data: Path, kind: str):
    copies.cluster.call(lambda: copies.cluster.faults.add(Fault(kind, verb="get", path="*/exec")))
    assert copies(local_path=str(data), remote_path="/data")["changed"]


def test_a_proxy_that_passes_no_websockets(copies: Copies, data: Path):
    """It answers itself, or drops the headers that ask for one."""
    copies.cluster.call(lambda: copies.cluster.faults.add(Fault("unavailable", path="*/exec", count=None)))
    result = copies(local_path=str(data), remote_path="/data")
    assert "(HTTP 503 to GET /api/v1/namespaces/default/pods/lab-0/exec)" in result["msg"]


def test_tls_and_a_proxy(tmp_path: Path, data: Path):
    root = tmp_path / "containers"
    with Cluster(nodes=1, tls=True, exec_root=root).running() as cluster, tcp_proxy() as proxy:
        kubeconfig = str(cluster.kubeconfig(tmp_path / "kubeconfig"))
        copies = Copies(cluster, root, {"kubeconfig": kubeconfig})
        copies.submit(notebook(resources={"gpu": 0}))
        assert copies(local_path=str(data), remote_path="/one")["changed"]
        copies.options |= {"proxy": proxy.url, "proxy_headers": {"proxy_basic_auth": "me:secret"}}
        assert copies(local_path=str(data), remote_path="/two")["changed"]
        assert contents(copies.container() / "one") == contents(copies.container() / "two") == contents(data)
        assert not copies(local_path=str(data), remote_path="/two")["changed"]
        assert len(proxy.tunnels) > 2
        assert all(
            "proxy-authorization: Basic bWU6c2VjcmV0" in head.lower() or "bWU6c2VjcmV0" in head
            for head in proxy.tunnels
        )


# -- through Ansible -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("fast", ["1", "0"])
def test_as_a_task(copies: Copies, data: Path, tmp_path: Path, fast: str):
    """In Ansible's process and as a module: relative paths start from the playbook."""
    environment = {"K8S_AUTH_HOST": copies.cluster.url, "K8S_AUTH_API_KEY": copies.cluster.token}
    ansible = Ansible(tmp_path, {**environment, "GPUCTL_FAST_PATH": fast})
    options = {"name": "lab", "remote_path": "/work/data", "local_path": "data"}
    tasks = [{"name": "copy", "runwhere.gpuctl.gpuctl_copy": options}] * 2
    run = ansible.play(tasks)
    assert [task.changed for task in run.tasks] == [True, False], run.output
    assert "+a.txt: 6 bytes, mode 0640" in run.output
    assert contents(copies.container() / "work" / "data") == contents(data)
