# SPDX-License-Identifier: BSD-2-Clause
"""What a run of chaos shows: figures and violations. Pure, but for the page."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

from .faults import Case, Group
from .stage import Verdict


def figures(verdicts: Sequence[Verdict]) -> list[tuple[str, int, int]]:
    """Of each group: how many cases were played, and how many held."""
    played: Counter[str] = Counter()
    held: Counter[str] = Counter()
    for verdict in verdicts:
        if verdict.reached:
            group = Case.parse(verdict.case).kind.group.value
            played[group] += 1
            held[group] += not verdict.violations
    return [(group.value, played[group.value], held[group.value]) for group in Group]


def table(verdicts: Sequence[Verdict]) -> str:
    """Cases and violations by scenario, and violations by oracle."""
    by_scenario: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        by_scenario[Case.parse(verdict.case).scenario].append(verdict)
    lines = [f"{'scenario':24} {'cases':>6} {'held':>6}  violations"]
    for name, found in by_scenario.items():
        reached = [verdict for verdict in found if verdict.reached]
        oracles = Counter(each.oracle for verdict in reached for each in verdict.violations)
        held = sum(not verdict.violations for verdict in reached)
        shown = ", ".join(f"{oracle} {number}" for oracle, number in oracles.most_common())
        lines.append(f"{name:24} {len(reached):6} {held:6}  {shown}")
    lines.append("")
    lines += [f"{group:8} {played:6} played, {held:6} held" for group, played, held in figures(verdicts)]
    not_reached = sum(not verdict.reached and not verdict.broken for verdict in verdicts)
    if not_reached:
        lines.append(f"{not_reached} cases ended before the request that was to be struck.")
    return "\n".join(lines)


_BEGIN, _END = "<!-- figures -->\n", "<!-- end of figures -->\n"


def write_page(page: Path, verdicts: Sequence[Verdict], where: str, command: str) -> None:
    """Put the figures of a run into docs/reliability.md, replacing those of the same command on such a cluster."""
    before, rest = page.read_text().split(_BEGIN)
    former, after = rest.split(_END)
    begin = f"| `{command}` | {where} |"
    rows = [line for line in former.splitlines() if line.startswith("| `") and not line.startswith(begin)]
    own = " | ".join(f"{held:,} of {played:,}" if played else "" for _group, played, held in figures(verdicts))
    head = ["| command | on | faults | kills | races |", "|---|---|---|---|---|"]
    page.write_text(before + _BEGIN + "\n".join([*head, *sorted([*rows, f"{begin} {own} |"])]) + "\n" + _END + after)


def details(verdict: Verdict) -> str:
    """All that is known of one case."""
    outcome = "NOT PLAYED" if verdict.broken else "VIOLATED" if verdict.violations else "held"
    lines = [f"{verdict.case}: {outcome} ({verdict.seconds} s)"]
    lines += [f"  {violation.oracle}: {violation.text}" for violation in verdict.violations]
    lines += [f"    {line}" for line in verdict.requests]
    lines += [f"  says: {line}" for message in verdict.messages for line in (message or "-").splitlines()]
    if verdict.broken:
        lines.append(verdict.broken)
    return "\n".join(lines)
