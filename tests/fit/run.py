# SPDX-License-Identifier: BSD-2-Clause
"""Hold predictions to the scheduler of a cluster: what `make fit` does.

GPUCTL_FIT_KUBECONFIG is a cluster of its own: its nodes are reshaped, and other pods than these disturb. Without it, a
simulated one. N is the number of pairs of a state and a job, SEED the first seed. A disagreement prints its seed;
SEED=it N=1 plays that world again.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import urllib3

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / ".cache" / "collections")]

from ansible_collections.runwhere.gpuctl.plugins.module_utils.kube.client import cached_client  # noqa: E402
from fit.compare import Tally, compare  # noqa: E402  (neither tests nor the collection are installed)
from fit.observed import Stage  # noqa: E402
from integration.api import Api  # noqa: E402
from kubesim import Cluster  # noqa: E402

urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

BATCHES = 24
MOST_UNKNOWN = 0.02


def main() -> None:
    given = os.environ.get("GPUCTL_FIT_KUBECONFIG")
    if given:
        sys.exit(_hold_to(given, real=True))
    with tempfile.TemporaryDirectory(prefix="gpuctl-fit-") as name, Cluster(nodes=8).running() as cluster:
        path = Path(name) / "kubeconfig"
        cluster.kubeconfig(path)
        sys.exit(_hold_to(str(path), real=False))


def _hold_to(kubeconfig: str, *, real: bool) -> int:
    pairs, seed = int(os.environ.get("N") or 200), int(os.environ.get("SEED") or 1)
    api = Api(kubeconfig)
    names = sorted(node["metadata"]["name"] for node in api.list("node"))
    stage = Stage(api, names, real=real)
    client = cached_client({"kubeconfig": kubeconfig}, {}, lambda secrets: None)
    tally, began, shown = Tally(), time.monotonic(), 0
    try:
        while tally.pairs < pairs:
            compare(stage, client, seed, BATCHES, tally)
            for text in tally.wrong[shown:]:
                print(text, flush=True)
            shown = len(tally.wrong)
            took = time.monotonic() - began
            print(f"seed {seed}: {tally.pairs} pairs, {shown} wrong, {took:.0f} s", flush=True)
            seed += 1
    finally:
        stage.clear()
        print(tally)
    return int(bool(tally.wrong) or sum(tally.unknown.values()) > MOST_UNKNOWN * tally.pairs)


if __name__ == "__main__":
    main()
