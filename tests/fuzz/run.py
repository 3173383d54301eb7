# SPDX-License-Identifier: BSD-2-Clause
"""Load damaged manifests by the thousand and let API servers judge what is accepted: what `make fuzz` does.

A mutant must be accepted, or rejected with one clear message. Nothing that is accepted may be refused by the simulated
API server, nor by the one that GPUCTL_TEST_KUBECONFIG names. build/fuzz/ gets the mutants that break that.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import resource
import sys
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / ".cache" / "collections")]

from fuzz.judge import Server, objects_of, outcome, server  # noqa: E402  (tests and the collection are not installed)
from fuzz.mutants import mutants  # noqa: E402
from kubesim import Cluster  # noqa: E402

DEFECTS = ROOT / "build" / "fuzz"


@dataclass
class Figures:
    """What has come of the mutants so far."""

    mutants: int = 0
    accepted: int = 0
    objects: int = 0
    problems: Counter[str] = field(default_factory=Counter)
    defects: list[str] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")

    def lines(self) -> Iterator[str]:
        yield f"{self.mutants} mutants: {self.accepted} accepted, {self.mutants - self.accepted} refused"
        yield f"{self.objects} objects judged by API servers"
        yield f"slowest to load: {self.slowest[0]:.3f} s of CPU, from {self.slowest[1]}"
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        yield f"peak memory: {peak} MiB (with the simulated server)"
        yield "refused because of:"
        yield from (f"  {number:6} {problem}" for problem, number in self.problems.most_common(25))
        yield f"{len(self.defects)} defects"
        yield from self.defects


def fuzz(number: int, seed: int, servers: Sequence[Server], seconds: float = float("inf")) -> Figures:
    """Judge that many mutants, or as many as the time allows."""
    figures = Figures()
    end = time.monotonic() + seconds
    for name, text in islice(mutants(seed), number):
        if time.monotonic() > end:
            break
        figures.mutants += 1
        for defect in judged(name, text, servers, figures):
            figures.defects.append(f"{figures.mutants} of seed {seed}, from {name}: {defect}")
            DEFECTS.mkdir(parents=True, exist_ok=True)
            (DEFECTS / f"{seed}-{figures.mutants}.yaml").write_text(text, encoding="utf-8", errors="surrogatepass")
    return figures


def judged(name: str, text: str, servers: Sequence[Server], figures: Figures) -> Iterator[str]:
    """What is wrong about the way a mutant was handled."""
    began = time.process_time()
    try:
        manifests, problem = outcome(text)
        objects = [list(objects_of(manifest, servers[0].namespace)) for manifest in manifests]
    except Exception:
        yield traceback.format_exc(limit=-3)
        return
    figures.slowest = max(figures.slowest, (time.process_time() - began, name))
    figures.accepted += not problem
    if problem:
        figures.problems[problem.partition(":")[0][:60]] += 1
    for obj in (obj for each in objects for obj in each):
        figures.objects += 1
        for each in servers:
            refusal = each.refusal(obj)
            if refusal:
                yield f"{each.name} refuses {obj['kind']}: {refusal[:300]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--mutants", type=int, default=50_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    with contextlib.ExitStack() as stack:
        path = DEFECTS / "kubeconfig"
        path.parent.mkdir(parents=True, exist_ok=True)
        cluster = stack.enter_context(Cluster(nodes=0, controllers=False).running())
        cluster.kubeconfig(path)
        servers = [stack.enter_context(server(str(path), "the simulated server"))]
        if given := os.environ.get("GPUCTL_TEST_KUBECONFIG"):
            servers.append(stack.enter_context(server(str(Path(given).resolve()), "the server")))
        figures = fuzz(arguments.mutants, arguments.seed, servers)
    print("\n".join(figures.lines()))
    sys.exit(1 if figures.defects else 0)


if __name__ == "__main__":
    main()
