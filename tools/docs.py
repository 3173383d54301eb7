# SPDX-License-Identifier: BSD-2-Clause
"""Build the documentation site into build/docs/html, without network; any warning fails.

antsibull-docs generates pages from the plugins, the roles and docs/docsite, and Sphinx turns them into HTML. The front
page is tools/front_page.rst; beside it, the navigation has the sections of docs/docsite/extra-docs.yml and then the
reference. On the page of a module, its own options come first.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
SITE = ROOT / "build" / "docs"
SOURCES = SITE / "rst"
COLLECTION = "runwhere.gpuctl"

# Where pages of Ansible's own documentation are. Sphinx would fetch its inventory (objects.inv).
ANSIBLE_DOCS = "https://docs.ansible.com/projects/ansible/latest/"
LABELS = {
    "action_plugins": "plugins/action.html#action-plugins",
    "ansible_configuration_settings": "reference_appendices/config.html#ansible-configuration-settings",
    "callback_plugins": "plugins/callback.html#callback-plugins",
    "common_return_values": "reference_appendices/common_return_values.html#common-return-values",
}
SETTINGS = f"""
intersphinx_mapping = {{"ansible": ("{ANSIBLE_DOCS}", "../ansible.inv")}}
extensions.append("tools.site_search")
html_title = html_short_title = "{COLLECTION}"
html_static_path = ["static"]
html_css_files = ["site.css"]
pygments_style, pygments_dark_style = "default", "monokai"
antsibull_ext_color_scheme = "default-autodark"
html_theme_options = {{
    "source_repository": "https://github.com/runwhere/ansible-collection-gpuctl/",
    "footer_icons": [],
}}
"""
# Tables of options are wide, and code is long: they scroll in themselves on a phone. Captions wrap as prose does.
STYLE = """
.sidebar-tree .caption { margin-top: 1.2rem }
article img { max-width: 100%; height: auto }
article table.docutils { display: block; overflow-x: auto }
article code { overflow-wrap: anywhere }
article h1 { font-size: 1.9em; overflow-wrap: anywhere }
article h2 { font-size: 1.5em }
article h3 { font-size: 1.2em }
"""

PLAYBOOK = "playbook_"  # pages that tools/generate_reference.py writes
# What pages of the reference are called in the navigation, by the end of their names.
REFERENCE = {
    "_role": "Roles",
    "_module": "Modules",
    "_inventory": "Inventory plugins",
    "_callback": "Callback plugins",
    "_filter": "Filters",
    "_lookup": "Lookups",
}
FRONT = ROOT / "tools" / "front_page.rst"


def main() -> None:
    shutil.rmtree(SITE, ignore_errors=True)
    SOURCES.mkdir(parents=True)
    for directory in (SITE, SOURCES):
        directory.chmod(0o700)  # antsibull-docs refuses directories that others may write to
    options = ["--use-current", "--squash-hierarchy", "--dest-dir"]
    theme = [
        "--sphinx-theme",
        "furo",
        "--project",
        COLLECTION,
        "--copyright",
        f"{COLLECTION} contributors",
    ]
    antsibull_docs("sphinx-init", *theme, *options, str(SITE), COLLECTION)
    with (SITE / "conf.py").open("a", encoding="utf-8") as settings:
        settings.write(SETTINGS)
    configuration = ["--config-file", str(SITE / "antsibull-docs.cfg")]
    antsibull_docs(*configuration, "collection", "--fail-on-error", *options, str(SOURCES), COLLECTION)
    arrange_pages()
    (SITE / "ansible.inv").write_bytes(inventory())
    sphinx = [sys.executable, "-m", "sphinx", "-b", "html", "-c", str(SITE), "-W", "--keep-going", "--quiet"]
    subprocess.run([*sphinx, str(SOURCES), str(SITE / "html")], check=True, cwd=ROOT)
    print(f"{SITE.relative_to(ROOT)}/html/index.html")


def arrange_pages() -> None:
    """Add the front page, pictures and style; put options in order; leave out plugins that are not for users."""
    for picture in [*(ROOT / "docs").glob("*.svg"), *(ROOT / "docs").glob("*.png")]:
        shutil.copy(picture, SITE)  # Where the paths of the guides lead from here, as in the repository.
    (SITE / "static").mkdir()
    (SITE / "static" / "site.css").write_text(STYLE, encoding="utf-8")
    for private in SOURCES.glob("_*.rst"):
        private.unlink()
    for page in SOURCES.rglob("*.rst"):  # The theme has the contents of a page beside it.
        text = page.read_text(encoding="utf-8")
        page.write_text(re.sub(r"(?m)^\.\. contents::\n(   :.*\n)*", "", text), encoding="utf-8")
    for page in SOURCES.glob("*_module.rst"):
        module = ROOT / "plugins" / "modules" / f"{page.stem.removesuffix('_module')}.py"
        page.write_text(own_options_first(page.read_text(encoding="utf-8"), own_options(module)), encoding="utf-8")
    sections = yaml.safe_load((ROOT / "docs" / "docsite" / "extra-docs.yml").read_text(encoding="utf-8"))["sections"]
    index = FRONT.read_text(encoding="utf-8") + navigation(
        sections, sorted(page.stem for page in SOURCES.glob("*.rst"))
    )
    (SOURCES / "index.rst").write_text(index, encoding="utf-8")


def navigation(sections: list[dict[str, Any]], pages: list[str]) -> str:
    """The guides in their sections, then the reference by kinds."""
    text = ""
    for section in sections:
        titles = {name: name.removeprefix(PLAYBOOK) if name.startswith(PLAYBOOK) else "" for name in section["toctree"]}
        text += toctree(section["title"], {f"docsite/{name}": title for name, title in titles.items()})
    for ending, title in REFERENCE.items():
        if found := {page: page.removesuffix(ending) for page in pages if page.endswith(ending)}:
            text += toctree(title, found)
    return text + toctree("More", {page: "" for page in pages if page == "environment_variables"})


def toctree(caption: str, pages: Mapping[str, str]) -> str:
    """The pages by their own titles, or by those given."""
    lines = (f"   {title} <{page}>\n" if title else f"   {page}\n" for page, title in pages.items())
    return f".. toctree::\n   :maxdepth: 1\n   :hidden:\n   :caption: {caption}\n\n{''.join(lines)}\n"


def own_options(module: Path) -> list[str]:
    """The options that a module itself documents, in this order, those that are required first."""
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "DOCUMENTATION":
            options = yaml.safe_load(ast.literal_eval(node.value)).get("options", {})
            return sorted(options, key=lambda name: not options[name].get("required", False))
    return []


def own_options_first(page: str, own: list[str]) -> str:
    """The page of a module with two tables of options: its own, and those that it shares with others.

    antsibull-docs sorts them by name, and so does ansible-doc.
    """
    before, mark, rest = page.partition("\n\nParameters\n----------\n")
    table, end, after = rest.partition("\n.. Attributes\n")
    if not mark or not end:
        return page
    head, *rows = re.split(r"(?m)^(?=  \* - )", table)
    titles, *rows = rows
    options = dict(grouped(rows))
    mine, shared = (
        [name for name in names if name in options] for names in (own, [n for n in options if n not in own])
    )
    if sorted((*mine, *shared)) != sorted(options):
        raise ValueError(f"options left over: {options.keys()}")
    tables = (("The module's own options:", mine), ("Options that it shares with other modules:", shared))
    text = "".join(
        f"\n{words}\n{head}{titles}{''.join(options[name] for name in names)}" for words, names in tables if names
    )
    return f"{before}{mark}{text}{end}{after}"


def grouped(rows: list[str]) -> Iterator[tuple[str, str]]:
    """Each option with the rows of its suboptions."""
    name, text = "", ""
    for row in rows:
        anchor = re.search(r'id="parameter-([^"/]+)(/?)', row)
        if anchor and not anchor[2]:
            if name:
                yield name, text
            name, text = anchor[1], ""
        text += row
    if name:
        yield name, text


def antsibull_docs(*arguments: str) -> None:
    tools = Path(sys.executable).parent  # It calls ansible-doc.
    environment = {"PATH": f"{tools}:{os.environ['PATH']}", "ANSIBLE_COLLECTIONS_PATH": str(ROOT / ".cache" / "tree")}
    done = subprocess.run(
        [str(tools / "antsibull-docs"), *arguments],
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        sys.exit(done.stdout)


def inventory() -> bytes:
    """What the pages link to in Ansible's documentation, in Sphinx's format 2 (sphinx/util/inventory.py)."""
    pages = "".join(page.read_text(encoding="utf-8") for page in SOURCES.rglob("*.rst"))
    places = {f"{name} std:label": uri for name, uri in LABELS.items()}
    for label, namespace, name, plugin in set(re.findall(r"<(ansible_collections\.(\w+)\.(\w+)\.(\w+))>", pages)):
        if f"{namespace}.{name}" != COLLECTION:
            places[f"{label} std:label"] = f"collections/{namespace}/{name}/{plugin}.html"
    for written in set(re.findall(r"envvar(?:ref)?:`(ANSIBLE[\w\\]+)", pages)):
        variable = written.replace("\\", "")
        places[f"{variable} std:envvar"] = f"reference_appendices/config.html#envvar-{variable}"
    head = "# Sphinx inventory version 2\n# Project: ansible\n# Version: \n# The remainder is compressed using zlib.\n"
    return head.encode() + zlib.compress("".join(f"{place} -1 {uri} -\n" for place, uri in places.items()).encode())


if __name__ == "__main__":
    main()
