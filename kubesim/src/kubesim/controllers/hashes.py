# SPDX-License-Identifier: BSD-2-Clause
"""Hashes of templates for names and labels: pod-template-hash, controller.kubernetes.io/hash.

Source: pkg/controller/controller_utils.go ComputeHash (FNV-1a, 32 bit), apimachinery util/rand SafeEncodeString. The
text that is hashed is JSON here and a Go dump there, so hashes are as stable, but not the same.
"""

from __future__ import annotations

import json
from typing import Any

ALPHABET = "bcdfghjklmnpqrstvwxz2456789"


def template_hash(value: Any, collisions: int = 0) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":")) + (str(collisions) if collisions else "")
    number = 0x811C9DC5
    for byte in text.encode():
        number = (number ^ byte) * 0x01000193 & 0xFFFFFFFF
    return "".join(ALPHABET[ord(digit) % len(ALPHABET)] for digit in str(number))
