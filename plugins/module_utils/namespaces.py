# SPDX-License-Identifier: BSD-2-Clause
"""The namespaces that a task may act in: those that its credentials are meant for, and for jobs none of the system's.

The API server decides what an account may do. These rules hold where one account serves several teams, or may do more
than its manifests should.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from .labels import DEFAULT_NAMESPACE, DNS_LABEL, LABEL_LENGTH, LABEL_VALUE, owner_of_reserved
from .options import Options, option
from .task import Task, TaskFailed

ALLOWED_NAMESPACES = "GPUCTL_ALLOWED_NAMESPACES"
NAMESPACE = "GPUCTL_NAMESPACE"


@dataclass(frozen=True, kw_only=True)
class NamespaceOptions(Options):
    """The option of modules that act in namespaces which a manifest or an option names."""

    allowed_namespaces: list[str] | None = option("list", elements="str")


class OwnNamespace(NamedTuple):
    """Where a task acts that names no namespace, and what messages call the place that says so."""

    name: str
    origin: str


def own_namespace(task: Task[Any], given: str | None) -> OwnNamespace:
    """The namespace that the option gives, else where kubectl would act: no request is needed to know.

    Raises TaskFailed for a name that is none, and ConnectionProblem.
    """
    if given:
        return OwnNamespace(given, "O(namespace)")
    return context_namespace(task) or OwnNamespace(DEFAULT_NAMESPACE, "O(namespace)")


def context_namespace(task: Task[Any]) -> OwnNamespace | None:
    """What the environment says, or else the kubeconfig's context or the service account of the surrounding pod."""
    if variable := task.environ.get(NAMESPACE, "").strip():
        own = OwnNamespace(variable, NAMESPACE)
    elif namespace := task.client().namespace:
        own = OwnNamespace(namespace, "namespace of the kubeconfig's context")
    else:
        return None
    if problem := namespace_problem(own.name, None):
        raise TaskFailed(f"{own.origin}: {problem}")
    return own


def named_job(task: Task[Any]) -> tuple[str, str]:
    """The namespace and the name of the job that the options name. Raises TaskFailed if the task may not act there."""
    own = own_namespace(task, task.options.namespace)
    require_allowed(task, [own.name], own.origin)
    require_job_name(task.options.name)
    return own.name, task.options.name


def require_job_name(name: str) -> None:
    """Raises TaskFailed for a name that no job can have: a label selector would be invalid, or one of other labels."""
    if len(name) > LABEL_LENGTH or not re.fullmatch(LABEL_VALUE, name):
        raise TaskFailed(f"O(name): invalid name of a job: {name!r}. To list the jobs, use M(gpuctl_job_info).")


def allowed_namespaces(task: Task[Any]) -> Sequence[str] | None:
    """The namespaces that both the option and the variable of the environment allow; None without either.

    The option comes from the author of the task, the variable from the credential: neither widens the other.
    """
    given, inherited = task.options.allowed_namespaces, task.environ.get(ALLOWED_NAMESPACES, "")
    # What names no namespace is a mistake: it must not mean all of them.
    if given is not None and not _given_names(given):
        raise TaskFailed("O(allowed_namespaces): empty. Name at least one namespace, or leave it out.")
    if inherited and not _given_names(inherited.split(",")):
        raise TaskFailed(f"{ALLOWED_NAMESPACES}: names no namespace: {inherited!r}. Name at least one, or unset it.")
    bounds = [names for names in (_given_names(given or ()), _given_names(inherited.split(","))) if names]
    if not bounds:
        return None
    common = [name for name in bounds[0] if all(name in names for names in bounds)]
    if not common:
        option, variable = (", ".join(names) for names in bounds)
        raise TaskFailed(
            f"O(allowed_namespaces): none of {option} is in {ALLOWED_NAMESPACES}: {variable}. Correct one of them."
        )
    return common


def namespace_problem(namespace: str, allowed: Sequence[str] | None) -> str | None:
    """What is wrong with acting in the namespace, as a sentence with its hint."""
    if len(namespace) > LABEL_LENGTH or not re.fullmatch(DNS_LABEL, namespace):
        # In a URL, a name such as "a/../b" would be another namespace.
        return f"invalid namespace: {namespace!r}. Use lower case letters, digits and '-', at most {LABEL_LENGTH}."
    if allowed is not None and namespace not in allowed:
        return f"namespace not allowed: {namespace}. Use one of: {', '.join(allowed)}."
    return None


def job_namespace_problem(namespace: str, allowed: Sequence[str] | None) -> str | None:
    """The same for a job that is created or changed."""
    if owner := owner_of_reserved(namespace):
        return f"namespace reserved for {owner} itself: {namespace}. Choose another one for the job."
    return namespace_problem(namespace, allowed)


def require_allowed(task: Task[Any], namespaces: Iterable[str], name: str = "O(namespace)") -> None:
    """Raises TaskFailed for all of the namespaces that the task may not act in; ``name`` is where they are named."""
    allowed = allowed_namespaces(task)
    found = [problem for each in namespaces if (problem := namespace_problem(each, allowed))]
    if found:
        raise TaskFailed("\n".join(f"{name}: {problem}" for problem in found))


def listed_namespaces(task: Task[Any], requested: Sequence[str] | None) -> list[str] | None:
    """The namespaces to list: those requested, else all that are allowed; None for the whole cluster."""
    if requested is not None:
        require_allowed(task, requested, "O(namespaces)")
        return list(dict.fromkeys(requested))
    allowed = allowed_namespaces(task)
    return None if allowed is None else list(allowed)


def _given_names(given: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name for each in given if (name := each.strip())))
