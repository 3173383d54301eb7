# SPDX-License-Identifier: BSD-2-Clause
"""The server as tests use it: faults, the request log, bulk loading, other forms of answers, tokens, watches."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from kubesim import LAB_USER_TOKEN, Cluster
from kubesim.faults import Fault

Object = dict[str, Any]
MAPS = "/api/v1/namespaces/default/configmaps"


class Client:
    def __init__(self, cluster: Cluster, token: str | None = None) -> None:
        self.cluster = cluster
        self.session = requests.Session()
        self.session.headers["Authorization"] = f"Bearer {token or cluster.token}"

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> requests.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        data = None if body is None else json.dumps(body)
        if body is not None:
            named.setdefault("Content-Type", "application/json")
        return self.session.request(method, self.cluster.url + path, data=data, headers=named, timeout=30)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(nodes=2, controllers=False).running() as running:
        yield running


@pytest.fixture
def client(cluster: Cluster) -> Iterator[Client]:
    client = Client(cluster)
    yield client
    cluster.call(cluster.faults.clear)
    client("DELETE", MAPS)
    cluster.call(cluster.requests.reset)


def config_map(name: str, **data: str) -> Object:
    return {"metadata": {"name": name}, "data": data}


# --- versions in applies, as Kubernetes 1.36.2 answered ---


@pytest.mark.parametrize(
    ("metadata", "absent", "present"),
    [
        ({"resourceVersion": "1"}, 201, 409),
        ({"resourceVersion": "0"}, 201, 200),
        ({"uid": "another"}, 409, 422),
        ({"uid": "another", "resourceVersion": "1"}, 409, 409),
    ],
    ids=str,
)
def test_an_apply_names_the_object_that_it_is_meant_for(
    client: Client, metadata: Object, absent: int, present: int
) -> None:
    def apply(name: str, **more: str) -> int:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **more}}
        path = f"{MAPS}/{name}?fieldManager=x"
        return client("PATCH", path, body, Content_Type="application/apply-patch+yaml").status_code

    apply("there")
    assert (apply("new", **metadata), apply("there", **metadata)) == (absent, present)


# --- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "status", "reason"),
    [
        ("busy", 429, "TooManyRequests"),
        ("error", 500, "InternalError"),
        ("unavailable", 503, "ServiceUnavailable"),
        ("timeout", 504, "Timeout"),
        ("conflict", 409, "Conflict"),
        ("expired", 410, "Expired"),
    ],
)
def test_a_fault_strikes_once_and_is_over(client: Client, kind: str, status: int, reason: str) -> None:
    client.cluster.faults.add(Fault(kind, verb="list", path="*/configmaps"))
    struck, after = client("GET", MAPS), client("GET", MAPS)
    assert (struck.status_code, struck.json()["reason"], after.status_code) == (status, reason, 200)


def test_busy_says_when_to_come_back(client: Client) -> None:
    client.cluster.faults.add(Fault("busy", seconds=3))
    answer = client("GET", MAPS)
    assert answer.headers["Retry-After"] == "3"
    assert answer.json()["details"]["retryAfterSeconds"] == 3


def test_a_stale_watch_says_so_in_its_stream(client: Client) -> None:
    client.cluster.faults.add(Fault("expired", verb="watch"))
    answer = client("GET", MAPS + "?watch=1&timeoutSeconds=1")
    event = json.loads(answer.text)
    assert (answer.status_code, event["type"], event["object"]["code"]) == (200, "ERROR", 410)


def test_the_second_write_conflicts(client: Client) -> None:
    client.cluster.faults.add(Fault("conflict", verb="create", skip=1))
    assert [client("POST", MAPS, config_map(name)).status_code for name in "abc"] == [201, 409, 201]


def test_a_broken_connection(client: Client) -> None:
    client.cluster.faults.add(Fault("reset"))
    with pytest.raises(requests.ConnectionError):
        client("GET", MAPS)


def test_latency_delays_the_answer(client: Client) -> None:
    client.cluster.faults.add(Fault("latency", seconds=0.2))
    assert client("GET", MAPS).elapsed.total_seconds() >= 0.2


# --- the request log --------------------------------------------------------------------------------------------------


def test_requests_are_counted_by_verb_and_resource(client: Client) -> None:
    client.cluster.call(client.cluster.requests.reset)
    client("POST", MAPS + "?dryRun=All", config_map("a"))
    client("POST", MAPS, config_map("a"))
    client("GET", MAPS)
    client("GET", "/version")
    log = client.cluster.requests
    assert log.counts() == {"create configmaps": 2, "list configmaps": 1, "get /version": 1}
    assert [(entry.verb, entry.dry_run) for entry in log.writes()] == [("create", False)]
    assert client("GET", "/_sim/requests").json()["counts"]["create configmaps"] == 2
    client("DELETE", "/_sim/requests")
    assert not log.entries
    assert client("POST", "/_sim/requests", {}).status_code == 404


# --- bulk loading -----------------------------------------------------------------------------------------------------


def test_many_objects_are_loaded_as_they_are(client: Client) -> None:
    objects = [
        {"kind": "Pod", "metadata": {"name": f"p{n}", "namespace": "big"}, "status": {"phase": "Running"}}
        for n in range(500)
    ]
    assert client.cluster.load(objects) == 500
    listed = client("GET", "/api/v1/namespaces/big/pods?limit=10").json()
    assert listed["metadata"]["remainingItemCount"] == 490
    assert listed["items"][0]["status"]["phase"] == "Running"
    client.cluster.add_nodes(["gpu-1"], labels={"x": "y"}, resources={"nvidia.com/gpu": "4"})
    node = client("GET", "/api/v1/nodes/gpu-1").json()
    assert node["status"]["allocatable"]["nvidia.com/gpu"] == "4"


# --- forms of answers -------------------------------------------------------------------------------------------------


def test_metadata_only(client: Client) -> None:
    client("POST", MAPS, config_map("a", x="1"))
    accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    answer = client("GET", MAPS, Accept=accept).json()
    assert (answer["kind"], answer["apiVersion"]) == ("PartialObjectMetadataList", "meta.k8s.io/v1")
    assert [set(item) for item in answer["items"]] == [{"kind", "apiVersion", "metadata"}]


def test_a_table(client: Client) -> None:
    answer = client(
        "GET", "/api/v1/nodes/node-1", Accept="application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
    ).json()
    assert [column["name"] for column in answer["columnDefinitions"]][:5] == [
        "Name",
        "Status",
        "Roles",
        "Age",
        "Version",
    ]
    assert answer["rows"][0]["cells"][:3] == ["node-1", "Ready", "<none>"]


def test_control_characters_in_an_apply(client: Client) -> None:
    """As Kubernetes 1.36: they are rejected in a string of JSON too, unless they are escaped."""
    url = f"{client.cluster.url}{MAPS}/control?fieldManager=t"
    headers = {"Content-Type": "application/apply-patch+yaml"}
    head = '{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"control"},"data":{"a":"'
    answers = {}
    for text in ("\x9b", "\x7f", r"\u009b", "\ufeff", "\x85"):
        body = f'{head}{text}"}}}}'.encode()
        answers[text] = client.session.patch(url, body, headers=headers, timeout=30)
    assert [answer.status_code for answer in answers.values()] == [400, 400, 201, 200, 200]
    why = "error decoding YAML: error converting YAML to JSON: yaml: control characters are not allowed"
    assert answers["\x9b"].json()["message"] == why


def test_yaml(client: Client) -> None:
    client("POST", MAPS, config_map("a", x="1"))
    answer = client("GET", MAPS + "/a", Accept="application/yaml")
    assert answer.headers["Content-Type"] == "application/yaml"
    assert "x: '1'" in answer.text


BODIES = [
    (
        {"apiVersion": "v1", "kind": "Foo"},
        'Foo in version "v1" cannot be handled as a HorizontalPodAutoscaler: no kind "Foo"',
    ),
    (
        {"apiVersion": "v1", "kind": "Pod"},
        "converting (v1.Pod) to (autoscaling.HorizontalPodAutoscaler): unknown conversion",
    ),
]


@pytest.mark.parametrize(("body", "text"), BODIES)
def test_bodies_of_another_kind_or_version(client: Client, body: Object, text: str) -> None:
    answer = client("POST", "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", body)
    assert answer.status_code == 400
    assert text in answer.json()["message"]


# --- who asks ---------------------------------------------------------------------------------------------------------


def test_impersonation_needs_the_right_to_it(client: Client) -> None:
    asked = {"Impersonate-User": "jane", "Impersonate-Group": "ml"}
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    path = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
    info = client("POST", path, review, **asked).json()["status"]["userInfo"]
    assert info == {"username": "jane", "groups": ["ml", "system:authenticated"]}
    refused = Client(client.cluster, LAB_USER_TOKEN)("POST", path, review, **asked)
    asked_for = 'cannot impersonate resource "users" in API group "" at the cluster scope'
    assert refused.json()["message"] == f'users "jane" is forbidden: User "lab-user" {asked_for}'


def test_a_service_account_acts_with_its_token(client: Client) -> None:
    accounts = "/api/v1/namespaces/default/serviceaccounts"
    client("POST", accounts, {"metadata": {"name": "robot"}})
    token = client("POST", f"{accounts}/robot/token", {"spec": {}}).json()["status"]["token"]
    robot = Client(client.cluster, token)
    assert 'User "system:serviceaccount:default:robot" cannot list' in robot("GET", MAPS).json()["message"]
    binding = {
        "metadata": {"name": "robots"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "default"}],
    }
    client("POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings", binding)
    assert robot("GET", MAPS).status_code == 200
    assert robot("GET", "/api/v1/namespaces/default/secrets").status_code == 403
    review = {"spec": {"namespace": "default"}}
    rules = robot("POST", "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", review).json()["status"]
    assert any("configmaps" in rule["resources"] for rule in rules["resourceRules"])


# --- watches ----------------------------------------------------------------------------------------------------------


def test_a_watch_ends_when_its_client_hangs_up(client: Client) -> None:
    watches = client.cluster._server.watches
    answer = client.session.get(f"{client.cluster.url}{MAPS}?watch=1&timeoutSeconds=60", stream=True, timeout=30)
    assert len(watches) == 1
    answer.close()
    deadline = time.monotonic() + 10
    while watches:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_watch_continues_from_a_list(client: Client) -> None:
    version = client("GET", MAPS).json()["metadata"]["resourceVersion"]
    seen: list[str] = []

    def watch() -> None:
        path = f"{MAPS}?watch=1&timeoutSeconds=5&resourceVersion={version}"
        with client.session.get(client.cluster.url + path, stream=True, timeout=30) as stream:
            for line in stream.iter_lines():
                event = json.loads(line)
                seen.append(f"{event['type']} {event['object']['metadata']['name']}")
                if event["type"] == "DELETED":
                    return

    thread = threading.Thread(target=watch)
    thread.start()
    other = Client(client.cluster)
    other("POST", MAPS, config_map("w"))
    other("PUT", f"{MAPS}/w", config_map("w", x="1"))
    other("DELETE", f"{MAPS}/w")
    thread.join(10)
    assert seen == ["ADDED w", "MODIFIED w", "DELETED w"]


def test_a_compacted_past_is_too_old(client: Client) -> None:
    version = client("GET", MAPS).json()["metadata"]["resourceVersion"]
    client("POST", MAPS, config_map("a"))
    client.cluster.call(client.cluster._backend.store.compact)
    event = json.loads(client("GET", f"{MAPS}?watch=1&timeoutSeconds=1&resourceVersion={version}").text)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    answer = client("GET", f"{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact")
    assert (answer.status_code, answer.json()["reason"]) == (410, "Expired")


def test_a_list_whose_version_is_gone_may_be_continued_with_what_is_there_now(client: Client) -> None:
    for name in "abc":
        client("POST", MAPS, config_map(name))
    token = client("GET", MAPS + "?limit=1").json()["metadata"]["continue"]
    client("DELETE", MAPS + "/b")
    client.cluster.call(client.cluster._backend.store.compact)
    expired = client("GET", f"{MAPS}?limit=1&continue={token}")
    assert expired.status_code == 410
    rest = client("GET", f"{MAPS}?limit=1&continue={expired.json()['metadata']['continue']}").json()
    assert [item["metadata"]["name"] for item in rest["items"]] == ["c"]


def test_warnings_come_with_refusals_too(client: Client) -> None:
    refused = client("POST", MAPS, {**config_map("Not A Name"), "colour": "red"})
    assert (refused.status_code, refused.headers["Warning"]) == (422, '299 - "unknown field \\"colour\\""')


def test_tls_and_kubeconfig(tmp_path: Any) -> None:
    import kubernetes

    with Cluster(nodes=1, tls=True).running() as cluster:
        config = kubernetes.config.new_client_from_config(str(cluster.kubeconfig(tmp_path / "kubeconfig")))
        assert [node.metadata.name for node in kubernetes.client.CoreV1Api(config).list_node().items] == ["node-1"]


# --- how queries are read ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "watches"), [("", True), ("yes", True), ("true", True), ("0", False), ("False", False)]
)
def test_any_value_but_no_asks_for_a_watch(client: Client, value: str, watches: bool) -> None:
    """runtime.Convert_Slice_string_To_bool"""
    answer = client("GET", f"{MAPS}?watch={value}&timeoutSeconds=1&resourceVersion=")
    assert answer.text.startswith('{"kind":"ConfigMapList"') is not watches


@pytest.mark.parametrize("limit", ["0", "-1"])
def test_only_a_positive_limit_cuts_a_list(client: Client, limit: str) -> None:
    for name in "abc":
        client("POST", MAPS, config_map(name))
    listed = client("GET", f"{MAPS}?limit={limit}").json()
    assert ([item["metadata"]["name"] for item in listed["items"]], "continue" in listed["metadata"]) == (
        list("abc"),
        False,
    )


def test_numbers_that_are_none(client: Client) -> None:
    answer = client("GET", MAPS + "?limit=many")
    assert (answer.status_code, answer.json()["message"]) == (400, 'strconv.ParseInt: parsing "many": invalid syntax')


@pytest.mark.parametrize(("selector", "status"), [("metadata.name=mine", 200), ("metadata.name=other", 403), ("", 403)])
def test_a_right_to_one_name_covers_lists_of_that_name(client: Client, selector: str, status: int) -> None:
    """requestinfo.go: a fieldSelector that allows one name names the object of the request."""
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"], "resourceNames": ["mine"]}
    client("POST", rbac + "/roles", {"metadata": {"name": "one"}, "rules": [rule]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "one"}
    subjects = [{"kind": "User", "name": "lab-user", "apiGroup": "rbac.authorization.k8s.io"}]
    client("POST", rbac + "/rolebindings", {"metadata": {"name": "one"}, "roleRef": reference, "subjects": subjects})
    listed = Client(client.cluster, LAB_USER_TOKEN)("GET", f"{MAPS}?fieldSelector={selector}")
    assert listed.status_code == status
    if selector and status == 403:
        assert listed.json()["message"].startswith('configmaps "other" is forbidden: User "lab-user" cannot list')


def test_a_bookmark_is_an_empty_object_of_its_kind(client: Client) -> None:
    """As Go writes it: a field without omitempty is there even so."""
    query = "watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=1"
    lines = client("GET", f"/api/v1/namespaces/default/pods?{query}").text.splitlines()
    events = [json.loads(line) for line in lines]
    assert {event["type"] for event in events} == {"BOOKMARK"}
    for event in events:
        assert (event["object"]["kind"], event["object"]["spec"]) == ("Pod", {"containers": None})
