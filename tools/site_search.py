# SPDX-License-Identifier: BSD-2-Clause
"""A Sphinx extension: the search of the site also finds Chinese words, which no spaces separate.

Runs of Chinese characters are indexed, and searched for, as pairs of neighbours. English stays as Sphinx has it.
"""

from __future__ import annotations

import re
from typing import Any

from sphinx.search import languages
from sphinx.search.en import SearchEnglish

_CHINESE = re.compile(r"[\u3400-\u9fff]+")


class SearchBoth(SearchEnglish):
    # As split() below, for what a reader types (sphinx/themes/basic/static/searchtools.js calls it).
    js_splitter_code = r"""
var splitQuery = (query) =>
  query
    .replace(/[\u3400-\u9fff]+/g, (run) => {
      const pairs = run.length > 1 ? Array.from({length: run.length - 1}, (_, i) => run.slice(i, i + 2)) : [run];
      return " " + pairs.join(" ") + " ";
    })
    .split(/[^\p{Letter}\p{Number}_\p{Emoji_Presentation}]+/gu)
    .filter((term) => term);
"""

    def split(self, input: str) -> list[str]:
        return super().split(_CHINESE.sub(lambda found: f" {' '.join(pairs(found[0]))} ", input))


def pairs(run: str) -> list[str]:
    """Each two neighbours of a run of characters; a single one is itself."""
    return [run[at : at + 2] for at in range(len(run) - 1)] or [run]


def setup(app: Any) -> dict[str, Any]:
    languages["en"] = SearchBoth
    return {"parallel_read_safe": True, "parallel_write_safe": True}
