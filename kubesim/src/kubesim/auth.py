# SPDX-License-Identifier: BSD-2-Clause
"""Authentication and authorization.

Source: apiserver pkg/authentication (bearer tokens, anonymous), pkg/endpoints/filters/{impersonation,authorization}.go,
plugin/pkg/auth/authorizer/rbac, pkg/registry/rbac/validation/rule.go, pkg/serviceaccount (claims of tokens).
"""

from __future__ import annotations

import base64
import json
import secrets
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from kubesim import errors
from kubesim.request_info import RequestInfo

Object = dict[str, Any]
AUTHENTICATED, UNAUTHENTICATED, MASTERS = "system:authenticated", "system:unauthenticated", "system:masters"


@dataclass(frozen=True)
class User:
    """`groups` with those that everybody gets (system:authenticated)."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()

    @property
    def info(self) -> Object:
        """authentication.k8s.io UserInfo."""
        found: Object = {"username": self.name, "uid": self.uid, "groups": list(self.groups)}
        return {key: value for key, value in found.items() if value}


#: The controllers.
SYSTEM = User("system:kube-controller-manager", "", (MASTERS, AUTHENTICATED))
ANONYMOUS = User("system:anonymous", "", (UNAUTHENTICATED,))


def service_account(namespace: str, name: str, uid: str = "") -> User:
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", AUTHENTICATED)
    return User(f"system:serviceaccount:{namespace}:{name}", uid, groups)


class Headers(Protocol):
    def get(self, name: str, default: str, /) -> str: ...
    def getall(self, name: str, default: list[str], /) -> list[str]: ...


@dataclass(frozen=True)
class IssuedToken:
    """A token of a service account: it ends at a time (seconds since 1970), and with the account."""

    account: Object  # its metadata
    expires: float


class Authenticator:
    """The bearer tokens of a cluster: fixed ones, and those issued for service accounts.

    ``find_account`` returns the service account of a namespace and name, ``now`` seconds since 1970.
    """

    def __init__(
        self,
        tokens: dict[str, User],
        find_account: Callable[[str, str], Object | None],
        now: Callable[[], float],
    ) -> None:
        self._tokens, self._find_account, self._now = tokens, find_account, now
        self._issued: dict[str, IssuedToken] = {}

    def identify(self, headers: Headers) -> User:
        """The user of a request; anonymous without a token, ApiError 401 for a token that is not valid."""
        scheme, _, token = headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            return ANONYMOUS
        user = self.user_of(token.strip())
        if user is None:
            raise errors.unauthorized()
        return user

    def user_of(self, token: str) -> User | None:
        """The user of a token that is valid now."""
        if token in self._tokens:
            return self._tokens[token]
        issued = self._issued.get(token)
        if issued is None or issued.expires <= self._now():
            return None
        meta = issued.account
        present = self._find_account(meta["namespace"], meta["name"])
        if present is None or present["metadata"]["uid"] != meta["uid"]:
            return None
        return service_account(meta["namespace"], meta["name"], meta["uid"])

    def issue(self, account: Object, audiences: list[str], seconds: int) -> str:
        """A token of a service account, given by its metadata."""
        now = int(self._now())
        claims = {
            "aud": audiences,
            "exp": now + seconds,
            "iat": now,
            "iss": "https://kubernetes.default.svc",
            "jti": str(uuid.uuid4()),
            "kubernetes.io": {
                "namespace": account["namespace"],
                "serviceaccount": {"name": account["name"], "uid": account["uid"]},
            },
            "nbf": now,
            "sub": service_account(account["namespace"], account["name"]).name,
        }
        # No client checks the signature: a token is known by its text.
        parts = [json.dumps({"alg": "RS256", "kid": "kubesim"}).encode(), json.dumps(claims).encode()]
        token = ".".join(_base64url(part) for part in (*parts, secrets.token_bytes(256)))
        self._issued[token] = IssuedToken(account, now + seconds)
        return token


def _base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


@dataclass(frozen=True)
class Attributes:
    """What is asked for: a verb on a resource, or (path set) on a path."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @classmethod
    def of(cls, info: RequestInfo) -> Attributes:
        if not info.is_resource:
            return cls(info.verb, path=info.path)
        name = info.name or info.selected_name
        return cls(info.verb, info.group, info.plural, info.subresource, info.namespace, name)

    @property
    def full_resource(self) -> str:
        return f"{self.resource}/{self.subresource}" if self.subresource else self.resource


@dataclass(frozen=True)
class Decision:
    allowed: bool
    reason: str = ""


class Authorizer:
    """RBAC over the roles and bindings that are stored, read by find(kind, namespace, name), scan(kind, namespace)."""

    def __init__(
        self, find: Callable[[str, str | None, str], Object | None], scan: Callable[[str, str | None], list[Object]]
    ) -> None:
        self.find, self.scan = find, scan

    def require(self, user: User, info: RequestInfo) -> None:
        """ApiError 403 when the request is not allowed."""
        asked = Attributes.of(info)
        decision = self.decide(user, asked)
        if not decision.allowed:
            raise refusal(user, asked, decision.reason)

    def decide(self, user: User, asked: Attributes) -> Decision:
        if MASTERS in user.groups:
            return Decision(True)
        problems: list[str] = []
        for rule, source in self._rules(user, asked.namespace, problems):
            if rule_allows(rule, asked):
                return Decision(True, f"RBAC: allowed by {source}")
        return Decision(False, _aggregate(problems))

    def rules(self, user: User, namespace: str) -> list[Object]:
        """All rules that apply to a user in a namespace (SelfSubjectRulesReview)."""
        if MASTERS in user.groups:
            everything = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
            return [*everything, {"verbs": ["*"], "nonResourceURLs": ["*"]}]
        return [rule for rule, _ in self._rules(user, namespace, [])]

    def impersonate(self, user: User, headers: Headers) -> User:
        """The user that Impersonate-… headers ask for; ApiError 403 when that is not allowed."""
        name, groups = headers.get("Impersonate-User", ""), headers.getall("Impersonate-Group", [])
        uid = headers.get("Impersonate-Uid", "")
        if not name:
            if groups or uid:
                raise errors.ApiError(500, "InternalError", "requested impersonation without a user name", {})
            return user
        account = name.split(":") if name.startswith("system:serviceaccount:") else []
        wanted = [Attributes("impersonate", resource="users", name=name)]
        if len(account) == 4:
            wanted = [Attributes("impersonate", resource="serviceaccounts", namespace=account[2], name=account[3])]
        wanted += [Attributes("impersonate", resource="groups", name=group) for group in groups]
        if uid:
            wanted.append(Attributes("impersonate", "authentication.k8s.io", "uids", name=uid))
        for asked in wanted:
            decision = self.decide(user, asked)
            if not decision.allowed:
                raise refusal(user, asked, decision.reason)
        if len(account) == 4 and not groups:
            return service_account(account[2], account[3], uid)
        everybody = UNAUTHENTICATED if name == ANONYMOUS.name else AUTHENTICATED
        return User(name, uid, tuple(dict.fromkeys((*groups, everybody))))

    def _rules(self, user: User, namespace: str, problems: list[str]) -> Iterator[tuple[Object, str]]:
        """The rules of all bindings to a user, each with the words for where it comes from."""
        bindings = self.scan("ClusterRoleBinding", None)
        if namespace:
            bindings = bindings + self.scan("RoleBinding", namespace)
        for binding in bindings:
            meta, ref = binding["metadata"], binding["roleRef"]
            place = meta.get("namespace", "")
            subject = _subject_for(user, binding.get("subjects") or [], place)
            if not subject:
                continue
            role = self.find(ref["kind"], place if ref["kind"] == "Role" else None, ref["name"])
            if role is None:
                problems.append(f'{ref["kind"].lower()}.rbac.authorization.k8s.io "{ref["name"]}" not found')
                continue
            name = f'"{meta["name"]}/{place}"' if place else f'"{meta["name"]}"'
            source = f'{binding["kind"]} {name} of {ref["kind"]} "{ref["name"]}" to {subject}'
            for rule in role.get("rules") or []:
                yield rule, source


def _aggregate(problems: list[str]) -> str:
    unique = list(dict.fromkeys(problems))
    if not unique:
        return ""
    return f"RBAC: {unique[0] if len(unique) == 1 else '[' + ', '.join(unique) + ']'}"


def _subject_for(user: User, subjects: list[Object], namespace: str) -> str:
    """The words for the subject of a binding that is the user; empty when none is."""
    for subject in subjects:
        kind, name = subject["kind"], subject["name"]
        if kind == "User" and name == user.name:
            return f'User "{name}"'
        if kind == "Group" and name in user.groups:
            return f'Group "{name}"'
        place = subject.get("namespace") or namespace
        if kind == "ServiceAccount" and user.name == f"system:serviceaccount:{place}:{name}":
            return f'ServiceAccount "{name}/{place}"'
    return ""


def rule_allows(rule: Object, asked: Attributes) -> bool:
    """rbac.RuleAllows."""
    if not _any_of(rule.get("verbs"), asked.verb):
        return False
    if asked.path:
        return any(
            url == "*" or url == asked.path or (url.endswith("*") and asked.path.startswith(url[:-1]))
            for url in rule.get("nonResourceURLs") or []
        )
    names = rule.get("resourceNames")
    resources = rule.get("resources") or []
    below = f"*/{asked.subresource}" if asked.subresource else asked.resource
    return (
        _any_of(rule.get("apiGroups"), asked.group)
        and ("*" in resources or asked.full_resource in resources or below in resources)
        and (not names or asked.name in names)
    )


def _any_of(allowed: list[str] | None, wanted: str) -> bool:
    return bool(allowed) and ("*" in allowed or wanted in allowed)  # type: ignore[operator]


def refusal(user: User, asked: Attributes, reason: str) -> errors.ApiError:
    """responsewriters.Forbidden."""
    who = f'User "{user.name}" cannot {asked.verb}'
    after = f": {reason}" if reason else ""
    if asked.path:
        return errors.ApiError(403, "Forbidden", f'forbidden: {who} path "{asked.path}"{after}', {})
    where = f'in the namespace "{asked.namespace}"' if asked.namespace else "at the cluster scope"
    text = f'{who} resource "{asked.full_resource}" in API group "{asked.group}" {where}{after}'
    return errors.forbidden(asked.group, asked.resource, asked.name, text)
