# SPDX-License-Identifier: BSD-2-Clause
"""Label and field selectors where the recordings do not reach."""

from __future__ import annotations

import pytest

from kubesim import resources
from kubesim.errors import ApiError
from kubesim.selectors import field_matcher, matches_label_selector, parse_fields, parse_labels, selector_text

LABELS = {"app": "web", "n": "5", "empty": ""}

MATCHES = [
    ("", True),
    ("app", True),
    ("!app", False),
    ("app in (web,api)", True),
    ("app notin (web)", False),
    ("missing notin (x)", True),
    ("missing!=x", True),
    ("empty=", True),
    ("empty in ()", True),
    ("empty in (,x)", True),
    ("n>4", True),
    ("n<5", False),
    ("missing>1", False),
    ("app=web, n=5 ,!missing", True),
    ("in in (x)", False),
]


@pytest.mark.parametrize(("text", "matches"), MATCHES)
def test_label_selectors(text: str, matches: bool) -> None:
    assert parse_labels(text).matches(LABELS) is matches


_NUMBER = "for 'Gt', 'Lt' operators, the value must be an integer"
MALFORMED = [
    ("=a", "found '=', expected: !, identifier, or 'end of string'"),
    ("a,", "found '', expected: identifier after ','"),
    ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    ("a in (b", "unable to parse requirement: found '', expected: ',' or ')'"),
    ("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
    ("!a=b", "found '=', expected: ',' or 'end of string'"),
    ("a==(", "unable to parse requirement: found '(', expected: identifier"),
    ("a>b", f'unable to parse requirement: values[0]: Invalid value: "b": {_NUMBER}'),
]


@pytest.mark.parametrize(("text", "message"), MALFORMED)
def test_malformed_label_selectors(text: str, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        parse_labels(text)
    assert (caught.value.status, caught.value.message) == (400, message)


def test_keys_and_values_are_checked() -> None:
    with pytest.raises(ApiError, match='<nil>: Invalid value: "-a": name part must consist of'):
        parse_labels("-a=b")
    with pytest.raises(ApiError, match=r'values\[0\]\[a\]: Invalid value: "-b": a valid label must be'):
        parse_labels("a=-b")


def test_selectors_of_objects() -> None:
    selector = {
        "matchLabels": {"app": "web"},
        "matchExpressions": [{"key": "n", "operator": "In", "values": ["6", "5"]}],
    }
    assert matches_label_selector(selector, LABELS)
    assert matches_label_selector({}, LABELS)
    assert not matches_label_selector(None, LABELS)
    assert selector_text(selector) == "app=web,n in (5,6)"


FIELDS = [
    ("Pod", "spec.nodeName=", True),
    ("Pod", "spec.hostNetwork=false", True),
    ("Pod", "status.phase!=Failed,metadata.name==p", True),
    ("Node", "spec.unschedulable=false", True),
    ("Job", "status.successful=0", True),
]


@pytest.mark.parametrize(("kind", "text", "matches"), FIELDS)
def test_fields_that_are_not_set_have_the_zero_value_of_their_type(kind: str, text: str, matches: bool) -> None:
    obj = {"kind": kind, "metadata": {"name": "p"}, "spec": {}, "status": {"phase": "Pending"}}
    assert field_matcher(resources.by_kind(kind), parse_fields(text))(obj) is matches


UNKNOWN = [
    ("Pod", "field label not supported: x"),
    ("Job", 'field label "x" not supported for Job'),
    ("Deployment", '"x" is not a known field selector: only "metadata.name", "metadata.namespace"'),
]


@pytest.mark.parametrize(("kind", "message"), UNKNOWN)
def test_unknown_fields(kind: str, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        field_matcher(resources.by_kind(kind), parse_fields("x=y"))
    assert caught.value.message == message


def test_a_comma_in_a_value_is_escaped() -> None:
    assert [(r.label, r.value) for r in parse_fields(r"a=b\,c,d=e\=f")] == [("a", "b,c"), ("d", "e=f")]
