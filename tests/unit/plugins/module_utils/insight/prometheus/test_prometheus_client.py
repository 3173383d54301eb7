# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.prometheus_client import (
    MOST_POINTS,
    Prometheus,
    open_prometheus,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.prometheus_options import (
    PrometheusOptions,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.insight.prometheus.prometheus_service import is_for_users
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import Client
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.connection import Connection
from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.errors import ConnectionProblem, KubeError
from ansible_collections.runwhere.gpuctl.plugins.module_utils.permissions import LOGS, SUBMIT
from ansible_collections.runwhere.gpuctl.plugins.module_utils.rbac.levels import role_name
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task

from tests.integration.prometheus_double import (
    Asked,
    Reply,
    matrix,
    prometheus_double,
    success,
    vector,
)


def opened(url: str | None, masked: set[str] | None = None, client: Client | None = None, **options: Any) -> Prometheus:
    environ = options.pop("environ", {})
    given = PrometheusOptions(**{f"prometheus_{name}": value for name, value in {"url": url, **options}.items()})
    found: set[str] = set() if masked is None else masked
    task = Task(given, {}, False, print, lambda values: found.update(values), environ=environ, opened_client=client)
    return open_prometheus(task, given)


def points_of(asked: Asked) -> Reply:
    """Each point that was asked for, with its time as its value, as Prometheus limits them."""
    start, end, step = (float(asked.parameters[name]) for name in ("start", "end", "step"))
    if (end - start) / step > 11_000:
        error = "exceeded maximum resolution of 11,000 points per timeseries."
        return Reply({"status": "error", "errorType": "bad_data", "error": error}, 400)
    count = int((end - start) / step) + 1
    times = [start + number * step for number in range(count)]
    return matrix(({"pod": "a"}, [(time, str(time)) for time in times]))


def test_a_query_returns_samples_with_their_labels() -> None:
    with prometheus_double(lambda asked: vector(({"pod": "a"}, "0.5"))) as server:
        (sample,) = opened(server.url).query("up", at=1000.5)
    assert (sample.labels, sample.time, sample.value) == ({"pod": "a"}, 1000.0, 0.5)
    (asked,) = server.asked
    assert (asked.method, asked.path) == ("GET", "/api/v1/query")
    assert asked.parameters == {
        "query": "up",
        "time": "1000.5",
        "timeout": "60s",
        "partial_response": "false",
        "deny_partial_response": "1",
    }


def test_a_scalar_is_a_sample_without_labels() -> None:
    with prometheus_double(lambda asked: success({"resultType": "scalar", "result": [1.0, "7"]})) as server:
        assert [(sample.labels, sample.value) for sample in opened(server.url).query("7")] == [({}, 7.0)]


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-Inf"])
def test_a_value_that_is_no_finite_number_is_no_data(value: str) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.path.endswith("range"):
            return matrix(({"pod": "a"}, [(1.0, value), (2.0, "1")]), ({"pod": "b"}, [(1.0, value)]))
        return vector(({"pod": "a"}, value), ({"pod": "b"}, "1"))

    with prometheus_double(answer) as server:
        prometheus = opened(server.url)
        assert [sample.labels["pod"] for sample in prometheus.query("x")] == ["b"]
        assert [(series.labels["pod"], series.points) for series in prometheus.query_range("x", 1, 2, 1)] == [
            ("a", [(2.0, 1.0)])
        ]


def test_a_long_query_is_sent_as_a_form() -> None:
    expression = "up or " * 500 + "up"
    with prometheus_double(lambda asked: vector()) as server:
        assert opened(server.url).query(expression) == []
    (asked,) = server.asked
    assert (asked.method, asked.path, asked.parameters["query"]) == ("POST", "/api/v1/query", expression)
    assert asked.headers["Content-Type"] == "application/x-www-form-urlencoded"


def test_a_long_range_is_asked_for_in_parts_without_a_gap_or_a_duplicate() -> None:
    with prometheus_double(points_of) as server:
        (series,) = opened(server.url).query_range("x", 100, 100 + 15 * 25_000, 15)
    assert [time for time, _value in series.points] == [100 + 15.0 * number for number in range(25_001)]
    assert len(server.asked) == 3 == -(-25_001 // MOST_POINTS)


def test_a_range_with_too_many_samples_is_asked_for_in_halves() -> None:
    def answer(asked: Asked) -> Reply:
        if float(asked.parameters["end"]) - float(asked.parameters["start"]) > 600:
            text = "query processing would load too many samples into memory in query execution"
            return Reply({"status": "error", "errorType": "execution", "error": text}, 422)
        return points_of(asked)

    with prometheus_double(answer) as server:
        (series,) = opened(server.url).query_range("x", 0, 1000, 1)
    assert [time for time, _value in series.points] == [float(number) for number in range(1001)]


def test_a_range_that_ends_before_it_starts_is_not_asked_for() -> None:
    with prometheus_double(points_of) as server:
        assert opened(server.url).query_range("x", 10, 5, 1) == []
    assert server.asked == []


def test_several_queries_are_answered_by_their_names() -> None:
    with prometheus_double(lambda asked: vector(({}, asked.parameters["query"]))) as server:
        found = opened(server.url).query_all({"one": "1", "two": "2"})
    assert {name: samples[0].value for name, samples in found.items()} == {"one": 1.0, "two": 2.0}


def test_warnings_and_missing_parts_are_kept() -> None:
    data = {"resultType": "vector", "result": []}
    with prometheus_double(lambda asked: success(data, warnings=["slow"], isPartial=True)) as server:
        prometheus = opened(server.url)
        prometheus.query("x")
        prometheus.query("y")
    assert prometheus.is_partial
    assert prometheus.warnings == ["slow", f"the answer of {server.url} lacks the data of some of its stores"]


def test_token_and_tenant_are_sent_and_the_token_is_masked() -> None:
    masked: set[str] = set()
    with prometheus_double(lambda asked: vector()) as server:
        opened(server.url, masked, token="very-secret-token", tenant="team-a|team-b").query("x")
    headers = server.asked[0].headers
    assert headers["Authorization"] == "Bearer very-secret-token"
    assert headers["X-Scope-OrgID"] == headers["THANOS-TENANT"] == "team-a|team-b"
    assert "very-secret-token" in masked


def test_the_login_of_a_url_is_a_header() -> None:
    with prometheus_double(lambda asked: vector()) as server:
        prometheus = opened(server.url.replace("//", "//u:pass-word@"))
        prometheus.query("x")
    assert server.asked[0].headers["Authorization"] == "Basic dTpwYXNzLXdvcmQ="
    assert "pass-word" not in prometheus.where


def test_settings_come_from_the_environment_unless_an_option_is_set() -> None:
    with prometheus_double(lambda asked: vector()) as server:
        environ = {
            "GPUCTL_PROMETHEUS_URL": server.url,
            "GPUCTL_PROMETHEUS_USER": "u",
            "GPUCTL_PROMETHEUS_PASSWORD": "p",
            "GPUCTL_PROMETHEUS_TENANT": "",
            "GPUCTL_PROMETHEUS_TIMEOUT": "5",
        }
        opened(None, environ=environ, timeout=7).query("x")
    (asked,) = server.asked
    assert asked.headers["Authorization"].startswith("Basic ")
    assert "X-Scope-OrgID" not in asked.headers
    assert asked.parameters["timeout"] == "7s"


ERRORS: dict[str, tuple[Reply, str]] = {
    "bad data": (
        Reply({"status": "error", "errorType": "bad_data", "error": "parse error"}, 400),
        "Prometheus rejects a query (bad_data, HTTP 400): parse error.",
    ),
    "execution": (
        Reply({"status": "error", "errorType": "execution", "error": "duplicate series"}, 422),
        "Prometheus rejects a query (execution, HTTP 422): duplicate series.",
    ),
    "timeout": (
        Reply({"status": "error", "errorType": "timeout", "error": "query timed out"}, 503),
        "Prometheus took too long for a query",
    ),
    "401": (Reply("Unauthorized", 401), "credentials rejected by Prometheus (HTTP 401)"),
    "tenant": (Reply("no org id", 401), "'no org id'. Check O(prometheus_token)"),
    "403": (Reply("Forbidden", 403), "access denied by Prometheus (HTTP 403)"),
    "404": (Reply("404 page not found", 404), "no Prometheus API at this address"),
    "page": (Reply("<html>login</html>", 200, {"Content-Type": "text/html"}), "returned an HTML page (HTTP 200)"),
    "redirect": (
        Reply("", 302, {"Location": "https://login.example.com/?next=secret"}),
        "a redirect to 'https://login.example.com/'. Set O(prometheus_url)",
    ),
    "nothing": (Reply("", 200), "returned an empty body"),
    "no result": (Reply({"status": "success", "data": {}}), "a success without a result"),
    "a list": (Reply([], 200), "not an answer of Prometheus"),
    "wrong type": (success({"resultType": "matrix", "result": []}), "a matrix instead of a vector"),
    "no labels": (
        success({"resultType": "vector", "result": [{"metric": {"a": 1}, "value": [1, "1"]}]}),
        "a series without labels",
    ),
    "no number": (
        success({"resultType": "vector", "result": [{"metric": {}, "value": [1, "x"]}]}),
        "a sample that is no number",
    ),
    "no value": (
        success({"resultType": "vector", "result": [{"metric": {}, "value": 3}]}),
        "a sample that is no number",
    ),
    "no series": (success({"resultType": "vector", "result": "x"}), "a result that is no list of series"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_what_is_no_answer_is_one_sentence_with_a_hint(name: str) -> None:
    reply, text = ERRORS[name]
    with prometheus_double(lambda asked: reply) as server, pytest.raises(KubeError) as caught:
        opened(server.url).query("x")
    assert text in str(caught.value)
    assert str(caught.value).endswith(".")
    assert len(server.asked) == 1


def test_an_answer_of_a_gateway_is_asked_for_again() -> None:
    replies = [Reply("bad gateway", 502), vector(({}, "1"))]
    with prometheus_double(lambda asked: replies.pop(0)) as server:
        assert len(opened(server.url).query("x")) == 1


def test_a_redirect_is_not_followed_with_credentials() -> None:
    with prometheus_double(lambda asked: vector()) as other:
        reply = Reply("", 307, {"Location": f"{other.url}/api/v1/query"})
        with prometheus_double(lambda asked: reply) as server, pytest.raises(KubeError):
            opened(server.url, token="very-secret-token").query("x")
        assert other.asked == []


def test_an_answer_that_repeats_the_token_is_masked() -> None:
    reply = Reply("token very-secret-token is not known", 500)
    with prometheus_double(lambda asked: reply) as server, pytest.raises(KubeError) as caught:
        opened(server.url, token="very-secret-token").query("x")
    assert "very-secret-token" not in str(caught.value)


def test_no_server() -> None:
    with prometheus_double(lambda asked: vector()) as server:
        pass
    with pytest.raises(ConnectionProblem, match=r"cannot reach Prometheus at .*Check O\(prometheus_url\)"):
        opened(server.url).query("x")


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "not a URL": ({"url": "prometheus:9090"}, "is not the URL of a Prometheus"),
    "a login without https://": ({"url": "u:s3cret@p:9090"}, "O(prometheus_url): p:9090 is not the URL"),
    "a query": ({"url": "https://p.example.com/?a=b"}, "is not the URL of a Prometheus"),
    "plain text": ({"url": "http://p.example.com", "token": "t0ken"}, "credentials would be sent without encryption"),
    "no password": ({"url": "https://p.example.com", "user": "u"}, "O(prometheus_password) is missing"),
    "no user": ({"url": "https://p.example.com", "password": "u"}, "O(prometheus_user) is missing"),
    "a line break": ({"url": "https://p.example.com", "token": "a\nb"}, "O(prometheus_token) has a space"),
    "tenant": ({"url": "https://p.example.com", "tenant": "a\nb"}, "O(prometheus_tenant) has a line break"),
    "no time": ({"url": "https://p.example.com", "timeout": 0}, "O(prometheus_timeout): 0 is not possible"),
    "no file": ({"url": "https://p.example.com", "ca_cert": "/no"}, "cannot read O(prometheus_ca_cert) /no"),
    "not PEM": ({"url": "https://p.example.com", "ca_cert": __file__}, "O(prometheus_ca_cert) is not a PEM"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_options_that_cannot_be(name: str) -> None:
    options, text = MISTAKES[name]
    with pytest.raises(ConnectionProblem) as caught:
        opened(**options)
    assert text in str(caught.value)


# -- through the API server --------------------------------------------------------------------------------------------


def service(name: str, *ports: int, namespace: str = "monitoring", **spec: Any) -> dict[str, Any]:
    listed = [{"port": port, "protocol": "TCP"} for port in ports]
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"ports": listed, **spec}}


def api_server(answer: Callable[[Asked], Reply], *services: dict[str, Any]) -> Callable[[Asked], Reply]:
    def reply(asked: Asked) -> Reply:
        metadata = {"resourceVersion": "1"}
        if asked.path == "/api/v1/services":
            return Reply({"kind": "ServiceList", "apiVersion": "v1", "metadata": metadata, "items": list(services)})
        if asked.path == "/api/v1/namespaces":  # those of users, by their label
            own = [{"metadata": {"name": "team-a"}}]
            return Reply({"kind": "PartialObjectMetadataList", "metadata": metadata, "items": own})
        if asked.path.endswith("/rolebindings"):
            return Reply({"kind": "RoleBindingList", "metadata": metadata, "items": []})
        return answer(asked)

    return reply


def test_without_a_url_the_service_is_found_and_asked_through_the_api_server() -> None:
    services = [service("prometheus-k8s", 9090), service("alertmanager-main", 9093), service("node-exporter", 9100)]
    with prometheus_double(api_server(lambda asked: vector(({}, "1")), *services)) as server:
        prometheus = opened(None, client=Client(Connection(server.url)))
        prometheus.query("x")
    assert (
        server.asked[-1].path
        == "/api/v1/namespaces/monitoring/services/http%3Aprometheus-k8s%3A9090/proxy/api/v1/query"
    )
    assert prometheus.where == "service monitoring/http:prometheus-k8s:9090"


def test_a_named_service_is_asked_without_a_list() -> None:
    with prometheus_double(lambda asked: vector()) as server:
        client = Client(Connection(server.url))
        opened(None, client=client, service="obs/https:thanos:10902/prefix", tenant="t").query("x")
    (asked,) = server.asked
    assert asked.path == "/api/v1/namespaces/obs/services/https%3Athanos%3A10902/proxy/prefix/api/v1/query"
    assert asked.headers["THANOS-TENANT"] == "t"


FOUND: dict[str, tuple[list[dict[str, Any]], str]] = {
    "kube-prometheus-stack": (
        [
            service("kps-alertmanager", 9093),
            service("kps-kube-prometheus-stack-prometheus", 9090, 8080),
            service("kps-kube-prometheus-stack-kube-etcd", 2381, namespace="kube-system"),
            service("kps-kube-prometheus-stack-operator", 443),
            service("kps-prometheus-node-exporter", 9100),
            service("prometheus-operated", 9090, clusterIP="None"),
        ],
        "monitoring/http:kps-kube-prometheus-stack-prometheus:9090",
    ),
    "chart of prometheus": ([service("prometheus-server", 80)], "monitoring/http:prometheus-server:80"),
    "operator alone": ([service("prometheus-operated", 9090)], "monitoring/http:prometheus-operated:9090"),
    "Thanos": (
        [service("prometheus-k8s", 9090), service("thanos-query", 10902, 10901)],
        "monitoring/http:thanos-query:10902",
    ),
    "VictoriaMetrics": ([service("vmsingle-vm", 8428)], "monitoring/http:vmsingle-vm:8428"),
    "its cluster": ([service("vmselect-vm", 8481)], "monitoring/http:vmselect-vm:8481/select/0/prometheus"),
    "Mimir": ([service("mimir-nginx", 80)], "monitoring/http:mimir-nginx:80/prometheus"),
}


@pytest.mark.parametrize("name", FOUND)
def test_the_service_of_usual_installations_is_found(name: str) -> None:
    services, where = FOUND[name]
    with prometheus_double(api_server(lambda asked: vector(), *services)) as server:
        assert opened(None, client=Client(Connection(server.url))).where == f"service {where}"


def test_the_role_that_only_reads_is_that_of_the_level() -> None:
    binding = {"metadata": {"namespace": "a"}, "roleRef": {"name": role_name(LOGS)}, "subjects": [{"kind": "User"}]}
    assert not is_for_users(binding)
    assert is_for_users({**binding, "roleRef": {"name": role_name(SUBMIT)}})


@pytest.mark.parametrize(
    ("services", "text"),
    [
        ([service("alertmanager", 9093)], "no Prometheus found among the services"),
        ([service("prometheus-a", 9090), service("prometheus-b", 9090)], "several Prometheus found: monitoring/prom"),
        # A rank only counts within a namespace.
        (
            [service("prometheus-k8s", 9090), service("thanos-query", 10902, namespace="thanos")],
            "several Prometheus found: monitoring/prometheus-k8s:9090, thanos/thanos-query:10902",
        ),
        # Any account that may create services could otherwise answer in its place.
        (
            [service("thanos-query", 10902, namespace="team-a"), service("prometheus", 9090, namespace="default")],
            "only administrators can have made: default/prometheus:9090, team-a/thanos-query:10902 is in a namespace",
        ),
    ],
)
def test_none_or_several_services(services: list[dict[str, Any]], text: str) -> None:
    answer = api_server(lambda asked: vector(), *services)
    with prometheus_double(answer) as server, pytest.raises(ConnectionProblem, match=text):
        opened(None, client=Client(Connection(server.url)))


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (403, "grant get and create of services/proxy for service monitoring/http:p:9090"),
        (404, "service of Prometheus not found: service monitoring/http:p:9090"),
        (503, "no endpoints available"),
    ],
)
def test_errors_of_the_api_server_on_the_way(status: int, text: str) -> None:
    body = {"kind": "Status", "status": "Failure", "message": "no endpoints available for service", "code": status}
    with prometheus_double(lambda asked: Reply(body, status)) as server, pytest.raises(KubeError) as caught:
        opened(None, client=Client(Connection(server.url)), service="monitoring/p:9090").query("x")
    assert text in str(caught.value)
    assert len(server.asked) == 1


def test_credentials_are_not_for_a_service() -> None:
    with pytest.raises(ConnectionProblem, match="passes no credentials on"):
        opened(None, client=Client(Connection("http://127.0.0.1:1")), service="a/b:9090", token="t0ken")


def test_a_service_that_is_none() -> None:
    with pytest.raises(ConnectionProblem, match="Write namespace/name:port"):
        opened(None, client=Client(Connection("http://127.0.0.1:1")), service="../b:9090")


def test_an_answer_of_gigabytes_is_an_error() -> None:
    series = [{"metric": {"pod": "x" * 100}, "values": [[1, "1"]] * 10} for _number in range(30_000)]
    text = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": series}})
    with prometheus_double(lambda asked: Reply(text)) as server, pytest.raises(KubeError, match="too many samples"):
        opened(server.url).query_range("x", 0, 9, 1)
