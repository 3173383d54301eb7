# SPDX-License-Identifier: BSD-2-Clause
"""Which namespaces a task may act in."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.runwhere.gpuctl.plugins.module_utils.namespaces import (
    NamespaceOptions,
    allowed_namespaces,
    job_namespace_problem,
    listed_namespaces,
    namespace_problem,
    own_namespace,
)
from ansible_collections.runwhere.gpuctl.plugins.module_utils.task import Task, TaskFailed


def task(option: list[str] | None, variable: str | None = None) -> Task[NamespaceOptions]:
    environ = {} if variable is None else {"GPUCTL_ALLOWED_NAMESPACES": variable}
    return Task(NamespaceOptions(allowed_namespaces=option), {}, False, print, lambda values: None, environ=environ)


@pytest.mark.parametrize(
    ("option", "variable", "expected"),
    [
        (None, None, None),
        (None, "", None),
        (None, "a, b", ["a", "b"]),
        (["a", " b "], None, ["a", "b"]),
        (["a", "a"], "", ["a"]),
        (["a", "b", "c"], "c,b", ["b", "c"]),
    ],
)
def test_neither_the_option_nor_the_variable_widens_the_other(
    option: list[str] | None, variable: str | None, expected: list[str] | None
):
    assert allowed_namespaces(task(option, variable)) == expected


@pytest.mark.parametrize(
    ("option", "variable", "words"),
    [
        ([], None, "O(allowed_namespaces): empty."),
        ([""], "a", "O(allowed_namespaces): empty."),
        (None, " , ", "GPUCTL_ALLOWED_NAMESPACES: names no namespace: ' , '. Name at least one"),
        (["a"], " ", "GPUCTL_ALLOWED_NAMESPACES: names no namespace: ' '. Name at least one"),
        (["b"], "a", "O(allowed_namespaces): none of b is in GPUCTL_ALLOWED_NAMESPACES: a."),
    ],
)
def test_an_empty_list_does_not_mean_all(option: list[str] | None, variable: str | None, words: str):
    with pytest.raises(TaskFailed) as refused:
        allowed_namespaces(task(option, variable))
    assert words in str(refused.value)


@pytest.mark.parametrize("name", ["a/../kube-system", "..", "", "A", "a b", "a?x", "a\n", "x" * 64])
def test_what_is_no_name_is_refused(name: str):
    assert str(namespace_problem(name, None)).startswith("invalid namespace")


@pytest.mark.parametrize(
    ("name", "owner"),
    [("kube-system", "Kubernetes"), ("kube-anything", "Kubernetes"), ("gpuctl-system", "gpuctl")],
)
def test_jobs_do_not_go_to_the_system(name: str, owner: str):
    assert job_namespace_problem(name, [name]) == (
        f"namespace reserved for {owner} itself: {name}. Choose another one for the job."
    )
    assert namespace_problem(name, None) is None


def test_only_allowed_ones_are_used():
    assert job_namespace_problem("team-a", ["team-a"]) is None
    assert job_namespace_problem("team-b", ["team-a", "x"]) == "namespace not allowed: team-b. Use one of: team-a, x."


@pytest.mark.parametrize(
    ("requested", "variable", "expected"),
    [
        (None, None, None),
        (None, "a,b", ["a", "b"]),
        (["b", "b"], "a,b", ["b"]),
        ([], "a", []),
    ],
)
def test_lists_are_of_what_is_allowed(requested: list[str] | None, variable: str | None, expected: list[str] | None):
    assert listed_namespaces(task(None, variable), requested) == expected


def test_a_list_of_others_is_refused():
    with pytest.raises(TaskFailed, match=r"O\(namespaces\): namespace not allowed: c"):
        listed_namespaces(task(None, "a,b"), ["a", "c"])


@pytest.mark.parametrize(
    ("option", "variable", "context", "expected"),
    [
        (None, None, None, "default"),
        (None, "", "", "default"),
        (None, None, "team-a", "team-a"),
        (None, " team-b ", "team-a", "team-b"),
        ("team-c", "team-b", "team-a", "team-c"),
        ("", "team-b", "team-a", "team-b"),
    ],
)
def test_where_a_task_acts(option: str | None, variable: str | None, context: str | None, expected: str):
    assert own_namespace(task_in(context, variable), option).name == expected


@pytest.mark.parametrize(
    ("variable", "context", "words"),
    [
        ("a,b", None, "GPUCTL_NAMESPACE: invalid namespace: 'a,b'. Use lower case letters"),
        (None, "a/../b", "namespace of the kubeconfig's context: invalid namespace: 'a/../b'. Use lower case letters"),
    ],
)
def test_where_no_task_can_act(variable: str | None, context: str | None, words: str):
    with pytest.raises(TaskFailed) as refused:
        own_namespace(task_in(context, variable), None)
    assert str(refused.value).startswith(words)


def task_in(context: str | None, variable: str | None) -> Task[NamespaceOptions]:
    """A task whose connection has the namespace of a context."""
    client: Any = SimpleNamespace(namespace=context, warning=None)
    environ = {} if variable is None else {"GPUCTL_NAMESPACE": variable}
    return Task(NamespaceOptions(), {}, False, print, lambda values: None, environ=environ, opened_client=client)
