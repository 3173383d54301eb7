# SPDX-License-Identifier: BSD-2-Clause
"""What a task changes: an entry per object, a sentence with counts, and the diff that Ansible shows. Pure."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..kube.resources import resource_of
from ..manifest.problems import number_of
from ..redaction import marked_variables, masked_object
from .paths import ABSENT, Change, Path, identity_of, value_at
from .plan import Action, Plan, Step


def diffs_of(plan: Plan) -> list[dict[str, str]]:
    """Ansible's ``diff`` entries: for each object that changes, the fields that change, with secrets masked."""
    changed = (step for step in (*plan.prerequisites, *plan.steps) if step.action is not Action.UNCHANGED)
    # Updates that only set the uid of a recreated workload are hidden.
    shown = [step for step in changed if step.action is not Action.UPDATE or _shown_changes(step)]
    return [_step_diff(step, plan) for step in shown]


def _shown_changes(step: Step) -> list[Change]:
    """The changes without our own bookkeeping: the uid of an owner, and the replicas that a pause keeps."""
    hidden = [("metadata", "ownerReferences")]
    if step.action in (Action.PAUSE, Action.RESUME):
        hidden.append(("metadata", "annotations"))
    return [change for change in step.changes if change.path[:2] not in hidden]


def _step_diff(step: Step, plan: Plan) -> dict[str, str]:
    metadata = step.identity["metadata"]
    title = f"{metadata['namespace']}/{step.name}" if metadata.get("namespace") else step.name
    before, after = "", ""
    stops = f": stops {plan.stops}" if plan.stops and step.replaces else ""
    if step.action is Action.DELETE:
        before = _yaml(identity_of(step.live))
    elif step.action is Action.CREATE:
        after = _yaml(masked_object(step.desired))
    elif step.changes:
        shown = list(masked_changes(step))
        before = _yaml(_tree((change.path, change.before) for change in shown))
        after = _yaml(_tree((change.path, change.after) for change in shown))
    else:
        before, after = _yaml(identity_of(step.live)), _yaml(masked_object(step.desired))
    return {
        "before": before,
        "after": after,
        "before_header": f"{step.live.get('kind', step.kind)} {title}",
        "after_header": f"{step.kind} {title} ({step.action}{stops})",
    }


def masked_changes(step: Step) -> Iterator[Change]:
    """The changes to show, without secrets; the new value says so if masking would hide that a secret changes."""
    marked = marked_variables(step.live) | marked_variables(step.desired)  # A value was as secret before its mark.
    live, desired = masked_object(step.live, marked), masked_object(step.desired, marked)

    def masked(obj: Mapping[str, Any], path: Path, value: Any) -> Any:
        found = ABSENT if value is ABSENT else value_at(obj, path)
        return value if found is ABSENT else found

    for change in _shown_changes(step):
        before, after = masked(live, change.path, change.before), masked(desired, change.path, change.after)
        same = before == after and isinstance(after, str)
        yield change._replace(before=before, after=f"{after} (changed)" if same else after)


def _tree(leaves: Iterable[tuple[Any, Any]]) -> dict[str, Any]:
    """Nested data with only the given leaves; entries of keyed lists show their key."""
    root: dict[str, Any] = {}
    for path, value in leaves:
        if value is ABSENT:
            continue
        node: Any = root
        for index, step in enumerate(path):
            last = index == len(path) - 1
            if isinstance(step, tuple):
                entry = next((item for item in node if all(item.get(name) == key for name, key in step)), None)
                if entry is None:
                    entry = dict(step)
                    node.append(entry)
                if last:
                    entry.update(value)
                node = entry
            elif last:
                node[step] = value
            else:
                node = node.setdefault(step, [] if isinstance(path[index + 1], tuple) else {})
    return root


def _yaml(tree: Mapping[str, Any]) -> str:
    import yaml

    if not tree:
        return ""
    if isinstance(files := tree.get("data"), Mapping):
        tree = {**tree, "data": fold_numbered(files)}
    return str(yaml.dump(tree, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=1000))


_NUMBERED = re.compile(r"(\D*)([1-9]\d*)(\D*)")
_FEWEST_ALIKE = 3


def fold_numbered(files: Mapping[str, Any]) -> dict[str, Any]:
    """The files of a ConfigMap, those once that only differ by the number that is also in their names.

    ``{"s-2": "replicas: 2", … "s-9": "replicas: 9"}`` becomes ``{"s-N (N from 2 to 9)": "replicas: N"}``.
    """
    alike: dict[tuple[str, str], list[tuple[int, str]]] = defaultdict(list)
    shown: dict[str, tuple[str, str]] = {}
    for name, text in files.items():
        if isinstance(text, str) and (found := _NUMBERED.fullmatch(name)):
            before, number, after = found.groups()
            shown[name] = f"{before}N{after}", re.sub(rf"\b{number}\b", "N", text)
            alike[shown[name]].append((int(number), name))
    folded: dict[str, Any] = {}
    for name, text in files.items():
        own = sorted(alike[shown[name]]) if name in shown else []
        if len(own) < _FEWEST_ALIKE:
            folded[name] = text
        elif own[0][1] == name:
            pattern, common = shown[name]
            folded[f"{pattern} (N {_numbers([number for number, _name in own])})"] = common
    return folded


def _numbers(numbers: Sequence[int]) -> str:
    if len(numbers) == numbers[-1] - numbers[0] + 1:
        return f"from {numbers[0]} to {numbers[-1]}"
    return f"in {', '.join(map(str, numbers))}"


@lru_cache(maxsize=1)
def _dumper() -> Any:
    import yaml

    # libyaml, if PyYAML was built with it, is ten times faster: that matters for hundreds of new objects.
    class WithoutAliases(getattr(yaml, "CSafeDumper", yaml.SafeDumper)):  # type: ignore[misc]
        """Objects that share a map, such as their labels, are shown in full instead of as ``*id001``."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

    WithoutAliases.add_representer(str, _represent_lines)
    return WithoutAliases


def _represent_lines(dumper: Any, text: str) -> Any:
    """A string of several lines, such as a file of a ConfigMap, is shown and compared line by line."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


def resource_result(step: Step) -> dict[str, Any]:
    """One entry of ``results[].resources``: what was done to an object."""
    return {
        "api_version": resource_of(dict(step.identity)).api_version,
        "kind": step.kind,
        "name": step.name,
        "action": str(step.action),
        "changes": [str(change) for change in step.changes],
    }


def action_summary(results: Sequence[Mapping[str, Any]], noun: str) -> str:
    """The message of a task: ``3 pools: 2 create, 1 unchanged``."""
    counts = Counter(result["action"] for result in results)
    actions = ", ".join(f"{number} {action}" for action, number in sorted(counts.items()))
    return f"{number_of(len(results), noun)}: {actions or 'nothing to do'}"


def map_diff(header: str, before: Mapping[str, str | None], after: Mapping[str, str | None]) -> dict[str, str]:
    """Ansible's ``diff`` entry for the keys that differ, a line each; None is a missing key."""

    def lines(values: Mapping[str, str | None], others: Mapping[str, str | None]) -> str:
        differing = ((key, value) for key, value in values.items() if value != others.get(key))
        return "".join(f"{key}: {value}\n" for key, value in differing if value is not None)

    texts = {"before": lines(before, after), "after": lines(after, before)}
    return {**texts, "before_header": header, "after_header": header}
