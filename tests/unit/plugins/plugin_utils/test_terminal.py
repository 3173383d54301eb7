# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import os
import subprocess
import sys

_PRINTS = """
import sys
from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.terminal import prepare_output

print("é", flush=True)
for _task in range(2):
    prepare_output()
sys.stdin.readline()
for stream in (sys.stdout, sys.stderr):
    print("nobody reads this", file=stream)
    print("nor this", file=stream, flush=True)
raise SystemExit(7)
"""


def test_a_run_goes_on_when_nobody_reads_it() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8", "PYTHONPATH": os.pathsep.join(sys.path)}
    streams = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
    with subprocess.Popen(
        [sys.executable, "-c", _PRINTS], **streams, stderr=subprocess.STDOUT, env=environment
    ) as process:
        assert process.stdin
        assert process.stdout
        line = process.stdout.readline()
        process.stdout.close()
        process.stdin.write(b"\n")
        process.stdin.close()
        assert (line.decode(), process.wait(60)) == ("é\n", 7)
