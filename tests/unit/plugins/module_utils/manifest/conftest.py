# SPDX-License-Identifier: BSD-2-Clause
"""Makes the tables importable for the tests beside them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
