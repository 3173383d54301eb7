# SPDX-License-Identifier: BSD-2-Clause
"""Run a command and write what it took to a file descriptor, as JSON: python tests/launcher.py FD COMMAND...

Linux counts the peak of the process that starts a program as the program's own, so the program is started by one that
is small; and RUSAGE_CHILDREN of a process with several children counts all of them (getrusage(2)).
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence


def main(descriptor: int, command: Sequence[str]) -> int:
    started = time.perf_counter()
    status = subprocess.call(command)
    seconds = time.perf_counter() - started
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    with os.fdopen(descriptor, "w") as file:
        # Of its largest process.
        json.dump({"seconds": seconds, "busy": used.ru_utime + used.ru_stime, "mib": used.ru_maxrss / 1024}, file)
    return abs(status)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), sys.argv[2:]))
