# SPDX-License-Identifier: BSD-2-Clause
"""The guides and the README agree with the code: fields, messages, names of plugins and playbooks."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from ansible_collections.runwhere.gpuctl.plugins.module_utils.wording import worded
from outside_packages import imported

ROOT = Path(__file__).resolve().parents[2]
DOCSITE = ROOT / "docs" / "docsite"
GUIDES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((DOCSITE / "rst").glob("*.rst"))}


def test_all_guides_are_in_the_table_of_contents() -> None:
    sections = yaml.safe_load((DOCSITE / "extra-docs.yml").read_text(encoding="utf-8"))["sections"]
    assert sorted(name for section in sections for name in section["toctree"]) == sorted(GUIDES)


def test_a_first_job_runs_after_few_words() -> None:
    """Of README and getting started together, up to the command that submits a job, or what is said of it."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8").partition("\n```text\nNAME")[0]
    guide = GUIDES["guide_getting_started"].partition("\nThe first command says whether")[0]
    texts = (re.sub(r"<!--.*?-->", "", readme, flags=re.DOTALL), re.sub(r"^\.\.\n( .*\n)+", "", guide))
    assert sum(len(text.split()) for text in texts) <= 900


@pytest.mark.parametrize("guide", ["guide_cluster", "guide_cluster_zh"])
def test_the_guide_to_clusters_leaves_a_node_for_jobs_without_a_pool(guide: str) -> None:
    """The first job of getting started names none: after this guide's commands it must still run."""
    pools = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "examples" / "cluster").rglob("*.yaml"))
    taken, of_guide = (set(re.findall(r"^ +(gpu-node-\d+):", text, re.MULTILINE)) for text in (pools, GUIDES[guide]))
    without_pool = {f"gpu-node-{number}" for number in range(1, 13)} - taken  # as `make cluster` starts them
    assert of_guide
    assert of_guide < without_pool


def test_the_fields_of_manifests_are_those_of_the_models() -> None:
    pages = imported(ROOT / "tools" / "generate_reference.py").field_pages()
    assert {path: path.read_text(encoding="utf-8") for path in pages} == pages, "run: make schemas"


def test_the_table_of_accelerators_is_that_of_the_profiles() -> None:
    generator = imported(ROOT / "tools" / "generate_reference.py")
    _text, mark, table = GUIDES["guide_accelerators"].partition(generator.ACCELERATORS_MARK)
    assert mark
    assert table == f"\n{generator.accelerators()}", "run: make schemas"


def test_the_pages_of_the_playbooks_are_generated() -> None:
    pages = imported(ROOT / "tools" / "generate_reference.py").pages()
    assert {path: path.read_text(encoding="utf-8") for path in pages} == pages, "run: make schemas"
    of_playbooks = {path for path in pages if path.suffix == ".rst" and path.stem != "event_plugins"}
    assert of_playbooks == set((DOCSITE / "rst").glob("playbook_*.rst"))


@pytest.mark.parametrize("path", sorted((ROOT / "playbooks").glob("*.yml")), ids=lambda path: path.stem)
def test_a_playbook_begins_with_its_command(path: Path) -> None:
    pages = imported(ROOT / "tools" / "playbook_pages.py")
    expected = f"# {pages.command(pages.described_playbooks()[path.stem])}\n"
    assert expected in path.read_text(encoding="utf-8")


# -- the sentences -----------------------------------------------------------------------------------------------------


def sentences() -> Iterator[str]:
    """Every text in the code, with … for what is put into it."""
    for path in (ROOT / "plugins").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value
            elif isinstance(node, ast.JoinedStr):
                yield "".join(str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)


MESSAGES = worded("\n".join(sentences()))
QUOTED, IN_CHINESE = (
    re.findall(r"^   \* - ``(.*)``$", GUIDES[guide], re.MULTILINE)
    for guide in ("guide_troubleshooting", "guide_troubleshooting_zh")
)


def test_there_are_sentences() -> None:
    assert len(QUOTED) > 20


@pytest.mark.parametrize("sentence", QUOTED)
def test_the_sentences_are_what_the_modules_say(sentence: str) -> None:
    pattern = "[^\n]*".join(re.escape(part) for part in sentence.split("…"))
    assert re.search(pattern, MESSAGES)


def test_the_chinese_guide_explains_no_other_sentences() -> None:
    """Those that it lacks are what tools/translation_lag.py reports."""
    assert IN_CHINESE
    assert set(IN_CHINESE) <= set(QUOTED)


# -- names -------------------------------------------------------------------------------------------------------------


def included() -> set[tuple[str, str]]:
    """What the collection has: its name, and the word for what it is."""
    places = {
        "module": "plugins/modules/*.py",
        "callback plugin": "plugins/callback/*.py",
        "filter": "plugins/filter/[!_]*.py",
        "inventory plugin": "plugins/inventory/*.py",
        "playbook": "playbooks/*.yml",
        "rulebook": "extensions/eda/rulebooks/*.yml",
        "event source": "extensions/eda/plugins/event_source/*.py",
        "event filter": "extensions/eda/plugins/event_filter/*.py",
        "role": "roles/*",
    }
    return {(path.stem, word) for word, pattern in places.items() for path in ROOT.glob(pattern)}


TEXTS = {**GUIDES, "README.md": (ROOT / "README.md").read_text(encoding="utf-8")}


@pytest.mark.parametrize("text", TEXTS)
def test_what_is_named_is_there(text: str) -> None:
    names = set(re.findall(r"runwhere\.gpuctl\.([a-z]\w*)", TEXTS[text])) - {"docsite", "gpuctl"}
    assert names - {name for name, _word in included()} == set()


# -- the README --------------------------------------------------------------------------------------------------------

README = TEXTS["README.md"]


def test_the_readme_lists_the_included_content() -> None:
    """A row for each kind, in the order of the alphabet."""
    rows = re.findall(r"^\| (\w[\w ]+) \| (`\w+`(?:, `\w+`)*) \|$", README, re.MULTILINE)
    listed = {word: re.findall(r"\w+", names) for word, names in rows}
    kinds = sorted({*(word for _name, word in included()), "action group"})
    names = {kind: sorted(name for name, word in included() if word == kind) for kind in kinds}
    assert listed == {f"{kind.capitalize()}s": found or ["gpuctl"] for kind, found in names.items()}


ENVIRONMENTS = yaml.safe_load((ROOT / "tests" / "environments.yml").read_text(encoding="utf-8"))


def test_the_versions_of_the_readme_are_tested() -> None:
    """In the environments of tests/environments.yml, besides those of .venv."""
    rows = dict(re.findall(r"^\| ([\w-]+)[^|]* \| [^|]+ \| ([^|]+) \|$", README, re.MULTILINE))
    pinned = [package.split("==") for one in ENVIRONMENTS.values() for package in one["packages"]]
    pinned += [["Python", one["python"]] for one in ENVIRONMENTS.values() if "python" in one]
    assert [
        (name, version) for name, version in pinned if version.removesuffix(".*") not in rows[name].split(", ")
    ] == []


def test_the_versions_of_the_support_policy_are_those_of_the_readme() -> None:
    supported = dict(re.findall(r"^\| (\w[\w-]+) \| ([^|]+) \|", README, re.MULTILINE))
    rows = dict(re.findall(r"^   \* - ([\w-]+)\n     - (.+)$", GUIDES["guide_support"], re.MULTILINE))
    said = {name: re.sub(r": \[.*", "", supported[name]) for name in ("ansible-core", "Python", "Kubernetes")}
    assert {name: rows[name] for name in said} == said


def test_the_guide_to_upgrades_has_a_row_for_each_change_that_breaks() -> None:
    fragments = (ROOT / "changelogs" / "fragments").glob("*.yml")
    breaking = [each for path in fragments for each in yaml.safe_load(path.read_text()).get("breaking_changes", ())]
    of_security = GUIDES["guide_upgrade"].partition("What is refused since then")[2].partition("From 1.1.0")[0]
    rows = GUIDES["guide_upgrade"].replace(of_security, "").replace("   * - What changes\n", "")
    assert rows.count("   * - ") == len(breaking)


PROOF = (ROOT / "docs" / "proof.md").read_text(encoding="utf-8")


def test_what_proves_a_claim_is_there() -> None:
    rows = "".join(re.findall(r"^\| .* \|$", PROOF, re.MULTILINE))
    paths = set(re.findall(r"`((?:tests|tools)/[\w./-]+)`", rows))
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"make ([a-z-]+)", rows)) <= targets


def test_each_claim_of_the_readme_has_its_proof() -> None:
    claims = re.findall(r"^- \*\*([^*]+)\.\*\*", README, re.MULTILINE)
    assert claims
    assert [claim for claim in claims if f"**{claim}**" not in PROOF] == []


def test_links_within_the_readme_lead_to_a_heading() -> None:
    headings = re.findall(r"^#+ (.+)$", README, re.MULTILINE)
    anchors = {re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-")) for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", README)) <= anchors


@pytest.mark.parametrize("name", ["docs/architecture.md", "docs/decisions.md", "CONTRIBUTING.md"])
def test_files_that_developers_are_sent_to_exist(name: str) -> None:
    """Paths in the architecture page may start at module_utils."""
    text = (ROOT / name).read_text(encoding="utf-8")
    paths = re.findall(r"(?<![\w/])((?:\w[\w-]*/)+[\w-]+\.(?:py|yml|yaml|rst|md))(?![\w/])", text)
    tops = (ROOT, ROOT / "plugins" / "module_utils")
    assert [path for path in paths if not any((top / path).exists() for top in tops)] == []


def test_performance_was_measured_with_this_release_or_the_last() -> None:
    page = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    (measured,) = re.findall(r"^Measured on .*, runwhere\.gpuctl ([0-9.]+) ", page, re.MULTILINE)
    version = yaml.safe_load((ROOT / "galaxy.yml").read_text())["version"]
    releases = yaml.safe_load((ROOT / "changelogs" / "changelog.yaml").read_text())["releases"]
    assert measured in {version, *sorted(releases, key=lambda each: tuple(map(int, each.split("."))))[-1:]}
