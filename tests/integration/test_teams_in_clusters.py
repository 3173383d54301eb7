# SPDX-License-Identifier: BSD-2-Clause
"""A team in several clusters: its share of a quota in each."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import yaml

from .ansible import Run
from .manifests import training
from .test_placement import NAMES, Sites, sites, words

__all__ = ["sites"]

GPU = "requests.nvidia.com/gpu"
DIRECTORY = ("-e", "gpuctl_dir=declared")
RESEARCH: dict[str, Any] = {
    "kind": "quota",
    "quota": {"name": "research"},
    "users": {
        "team-a": {"gpu": 8, "clusters": {"east": {"gpu": 2}, "west": {"gpu": 6, "cpu": 100}}},
        "team-b": {"gpu": 1},
    },
}


def declare(sites: Sites, manifest: dict[str, Any] = RESEARCH) -> None:
    (sites.ansible.directory / "declared").mkdir(exist_ok=True)
    (sites.ansible.directory / "declared" / "quota.yaml").write_text(yaml.safe_dump(manifest))


def limits(sites: Sites, namespace: str = "team-a") -> dict[str, dict[str, str]]:
    """The limits of the namespace in the clusters that have any."""
    return {
        name: obj["spec"]["hard"]
        for name, cluster in sites.clusters.items()
        for obj in cluster.objects()
        if obj["kind"] == "ResourceQuota"
        and obj["metadata"]["namespace"] == namespace
        and obj["metadata"]["name"] != "gpuctl-object-counts"
    }


def written(sites: Sites) -> list[str]:
    """The requests that write: asking what the account may does not."""
    return [each for each in sites.writes if "/selfsubject" not in each]


def changes(run: Run) -> dict[str, str]:
    """How many tasks have changed something, by cluster."""
    lines = (line for line in run.output.splitlines() if "changed=" in line)
    return {line.partition(":")[0]: line.partition("changed=")[2].split()[0] for line in lines}


def test_each_cluster_gets_its_share_and_a_second_run_writes_nothing(sites: Sites) -> None:
    declare(sites)
    sites.begin()
    checked = sites.playbook("provision", *DIRECTORY, "-e", "gpuctl_fail_on_drift=false", "--check")
    assert checked.status == 0, checked.output
    assert written(sites) == []
    assert limits(sites) == {}
    done = sites.playbook("provision", *DIRECTORY)
    assert done.status == 0, done.output
    assert changes(done) == changes(checked) == dict.fromkeys(NAMES, "1")
    assert limits(sites) == {
        "east": {GPU: "2"},
        "west": {GPU: "6", "requests.cpu": "100", "limits.cpu": "100"},
        "north": {GPU: "0"},
    }
    assert limits(sites, "team-b") == {name: {GPU: "1"} for name in NAMES}
    expected = "team-a has no share in cluster north, only in east, west, and so 0 of what its quota limits: gpu."
    assert words(done).count(expected) == 1
    sites.begin()
    again = sites.playbook("provision", *DIRECTORY)
    assert again.status == 0, again.output
    assert changes(again) == dict.fromkeys(NAMES, "0")
    assert written(sites) == []
    assert "no share" not in words(again)
    for name in ("plan", "drift"):
        compared = sites.playbook(name, *DIRECTORY)
        assert compared.status == 0, compared.output
    assert "Everything is as declared." in compared.output


def test_drift_and_plan_compare_each_cluster_with_its_share(sites: Sites) -> None:
    declare(sites)
    assert sites.playbook("provision", *DIRECTORY).status == 0
    moved = {"gpu": 8, "clusters": {"east": {"gpu": 2}, "west": {"gpu": 5, "cpu": 100}, "north": {"gpu": 1}}}
    declare(sites, {**RESEARCH, "users": {**RESEARCH["users"], "team-a": moved}})
    planned = sites.playbook("plan", *DIRECTORY)
    assert planned.status == 0, planned.output
    rows = [line.split()[:2] for line in planned.output.splitlines() if line.startswith(NAMES)]
    assert ["west", "update"] in rows
    assert ["north", "update"] in rows
    assert ["east", "update"] not in rows
    drifted = sites.playbook("drift", *DIRECTORY)
    assert drifted.status == 2
    assert "west/ResourceQuota/team-a/research-team-a" in words(drifted)
    assert "east/ResourceQuota/team-a" not in words(drifted)
    assert limits(sites)["west"][GPU] == "6"
    field = f"ResourceQuota/team-a/research-team-a:spec.hard[{GPU}]"
    restored = sites.playbook("drift", *DIRECTORY, "-e", f"gpuctl_restore={field}", "--limit", "west")
    assert restored.status == 0, restored.output
    assert limits(sites)["west"][GPU] == "5"


def test_a_saved_plan_is_applied_with_the_share_of_its_cluster(sites: Sites) -> None:
    declare(sites)
    limited = ("--limit", "west", "-e")
    assert sites.playbook("plan", *DIRECTORY, *limited, "gpuctl_output=plan.json").status == 0
    done = sites.playbook("provision", *limited, "gpuctl_plan=plan.json")
    assert done.status == 0, done.output
    assert limits(sites)["west"][GPU] == "6"


def test_a_job_is_placed_where_its_team_has_a_share(sites: Sites) -> None:
    """east comes first, and its GPUs are free: the quota of the team is not enough there."""
    declare(sites)
    assert sites.playbook("provision", *DIRECTORY).status == 0
    job = training("sft", resources={"gpu": 4}, job={"namespace": "team-a"})
    (sites.ansible.directory / "sft.yaml").write_text(yaml.safe_dump(job))
    run = sites.submit()
    assert run.status == 0, run.output
    assert sites.copies() == ["west"]


def test_no_share_is_guessed_where_the_cluster_is_not_known(sites: Sites) -> None:
    declare(sites)
    kubeconfig = str(sites.ansible.directory / "kubeconfigs" / "east.kubeconfig")
    sites.begin()
    del sites.ansible.environment["ANSIBLE_INVENTORY"]
    sites.ansible.environment["K8S_AUTH_KUBECONFIG"] = kubeconfig
    for name in ("provision", "plan", "drift"):
        run = sites.playbook(name, *DIRECTORY)
        assert run.status == 2, run.output
        assert "users.team-a.clusters: not known which of these clusters this one is." in words(run)
    assert written(sites) == []
    declare(sites, {**RESEARCH, "users": {"team-b": {"gpu": 1}}})
    run = sites.playbook("provision", *DIRECTORY)
    assert run.status == 0, run.output
    assert limits(sites, "team-b") == {"east": {GPU: "1"}}


def test_shares_beyond_the_limit_change_nothing_in_any_cluster(sites: Sites) -> None:
    declare(sites, {**RESEARCH, "users": {"team-a": {"gpu": 8, "clusters": {"east": {"gpu": 6}, "west": {"gpu": 6}}}}})
    sites.begin()
    run = sites.playbook("provision", *DIRECTORY)
    assert run.status == 2
    expected = "users.team-a.clusters.west.gpu: the shares of the clusters add up to more than 8, the limit of all"
    assert expected in words(run)
    assert written(sites) == []
    assert limits(sites) == {}


# -- one colleague in several clusters ---------------------------------------------------------------------------------

ALICE = ("-e", "gpuctl_name=alice", "-e", "gpuctl_gpu=2", "-e", "gpuctl_kubeconfig=alice.kubeconfig")


def kubeconfig_of(sites: Sites, name: str = "alice") -> Any:
    return yaml.safe_load((sites.ansible.directory / f"{name}.kubeconfig").read_text())


def contexts_of(sites: Sites) -> list[str]:
    return [each["name"] for each in kubeconfig_of(sites)["contexts"]]


def tokens_of(sites: Sites) -> dict[str, str]:
    return {each["name"].rpartition("@")[2]: each["user"]["token"] for each in kubeconfig_of(sites)["users"]}


def with_account(sites: Sites) -> list[str]:
    """The clusters that have the account."""
    return [
        name
        for name, cluster in sites.clusters.items()
        if any(obj["kind"] == "ServiceAccount" and obj["metadata"]["name"] == "alice" for obj in cluster.objects())
    ]


def test_a_colleague_gets_access_to_the_clusters_that_are_chosen_in_one_file(sites: Sites) -> None:
    sites.begin()
    asked = sites.playbook("onboard", *ALICE)
    assert asked.status == 2
    assert "runwhere.gpuctl.onboard is for one cluster, and these are 3" in words(asked)
    assert "With -e gpuctl_clusters=all, it acts in each of them." in words(asked)
    some = (*ALICE, "-e", "gpuctl_clusters=side_e,north")
    checked = sites.playbook("onboard", *some, "--check")
    assert checked.status == 0, checked.output
    assert written(sites) == []
    assert not (sites.ansible.directory / "alice.kubeconfig").exists()
    done = sites.playbook("onboard", *some)
    assert done.status == 0, done.output
    assert with_account(sites) == ["east", "north"]
    assert limits(sites, "alice") == {name: {GPU: "2"} for name in ("east", "north")}
    assert contexts_of(sites) == ["east", "north"]
    assert kubeconfig_of(sites)["current-context"] == "east"
    assert "alice uses K8S_AUTH_KUBECONFIG=alice.kubeconfig K8S_AUTH_CONTEXT=north. Its namespace is alice." in words(
        done
    )
    former = tokens_of(sites)
    sites.begin()
    again = sites.playbook("onboard", *some)
    assert again.status == 0, again.output
    assert changes(again) == dict.fromkeys(NAMES, "0")
    assert written(sites) == []
    more = sites.playbook("onboard", *ALICE, "-e", "gpuctl_clusters=all", "--diff")
    assert more.status == 0, more.output
    assert contexts_of(sites) == ["east", "north", "west"]
    assert {name: tokens_of(sites)[name] for name in former} == former
    assert len({*tokens_of(sites).values()}) == 3
    for run in (done, again, more):
        assert not any(token in run.output for token in tokens_of(sites).values())


def test_the_file_is_the_inventory_of_its_owner_until_the_access_ends(sites: Sites) -> None:
    assert sites.playbook("onboard", *ALICE, "-e", "gpuctl_clusters=all").status == 0
    inventory = {"plugin": "runwhere.gpuctl.clusters", "kubeconfig": ["alice.kubeconfig"]}
    (sites.ansible.directory / "alice.clusters.yml").write_text(yaml.safe_dump(inventory))
    seen = sites.playbook("status", "-i", "alice.clusters.yml")
    assert "3 of 3 clusters read" in seen.output
    declare(sites, {**RESEARCH, "users": {"alice": {"gpu": 8}}})
    own = {**sites.ansible.environment, "ANSIBLE_INVENTORY": str(sites.ansible.directory / "alice.clusters.yml")}
    tenant = replace(sites.ansible, environment=own)
    raised = tenant.run("ansible-playbook", "runwhere.gpuctl.provision", *DIRECTORY)
    assert raised.status == 2, raised.output
    assert limits(sites, "alice") == {name: {GPU: "2"} for name in NAMES}
    ended = sites.playbook("offboard", *ALICE[:2], *ALICE[4:], "--limit", "east")
    assert ended.status == 0, ended.output
    assert with_account(sites) == ["west", "north"]
    assert contexts_of(sites) == ["north", "west"]
    assert kubeconfig_of(sites)["current-context"] == "north"
    ended = sites.playbook("offboard", *ALICE[:2], *ALICE[4:])
    assert ended.status == 0, ended.output
    assert with_account(sites) == []
    assert not (sites.ansible.directory / "alice.kubeconfig").exists()


def test_what_would_mix_clusters_or_users_is_refused(sites: Sites) -> None:
    everywhere = ("-e", "gpuctl_clusters=all")
    refused = [
        (
            ("-e", "gpuctl_clusters=east,weast"),
            "gpuctl_clusters: no cluster of this play, and no group of them: weast.",
        ),
        (
            (*everywhere, "-e", "gpuctl_server=https://a:6443"),
            "gpuctl_server: https://a:6443 is one cluster, and these are 3",
        ),
    ]
    sites.begin()
    for arguments, expected in refused:
        run = sites.playbook("onboard", *ALICE, *arguments)
        assert run.status == 2
        assert expected in words(run)
    assert written(sites) == []
    file = sites.ansible.directory / "alice.kubeconfig"
    for cluster in ("east", "west"):
        made = write_kubeconfig(sites, cluster, name="alice", cluster="{{ inventory_hostname }}")
        assert made.status == 0, made.output
    text = file.read_text()
    for expected, options in (
        ("is not for bob, and would be with the tokens of another user", {"name": "bob", "cluster": "east"}),
        ("is not for bob", {"name": "bob", "cluster": "east", "state": "absent"}),
        ("has contexts of several clusters, such as east. Set cluster, or name another file.", {"name": "alice"}),
    ):
        run = write_kubeconfig(sites, "east", **options)
        assert run.status == 2, run.output
        assert expected in words(run)
        assert file.read_text() == text
    damaged = text.replace("contexts:", "contexts: [")
    file.write_text(damaged)
    run = write_kubeconfig(sites, "east", name="alice", cluster="east")
    assert "cannot be read as a kubeconfig. Delete it, or name another file." in words(run)
    assert file.read_text() == damaged


def write_kubeconfig(sites: Sites, host: str, **options: str) -> Run:
    """For users, who need no account."""
    task = {"runwhere.gpuctl.gpuctl_kubeconfig": {"kind": "user", "dest": "alice.kubeconfig", **options}}
    path = sites.ansible.directory / "play.yml"
    path.write_text(yaml.safe_dump([{"hosts": host, "gather_facts": False, "tasks": [task]}]))
    return sites.ansible.run("ansible-playbook", str(path))


def test_clusters_that_write_at_the_same_time_lose_nothing(sites: Sites) -> None:
    done = write_kubeconfig(sites, "gpuctl_clusters", name="alice", cluster="{{ inventory_hostname }}")
    assert done.status == 0, done.output
    assert sorted(contexts_of(sites)) == sorted(NAMES)
    done = write_kubeconfig(sites, "gpuctl_clusters", name="alice", cluster="{{ inventory_hostname }}", state="absent")
    assert done.status == 0, done.output
    assert not (sites.ansible.directory / "alice.kubeconfig").exists()
