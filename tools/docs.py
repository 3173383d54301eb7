# SPDX-License-Identifier: BSD-2-Clause
"""Build the documentation site into build/docs/html, without network; any warning fails.

antsibull-docs generates pages from the plugins, the roles and docs/docsite, and Sphinx turns them into HTML.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

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
html_title = "{COLLECTION}"
"""


def main() -> None:
    shutil.rmtree(SITE, ignore_errors=True)
    SOURCES.mkdir(parents=True)
    for directory in (SITE, SOURCES):
        directory.chmod(0o700)  # antsibull-docs refuses directories that others may write to
    options = ["--use-current", "--squash-hierarchy", "--dest-dir"]
    theme = [
        "--sphinx-theme",
        "sphinx_ansible_theme",
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
    (SITE / "ansible.inv").write_bytes(inventory())
    sphinx = [sys.executable, "-m", "sphinx", "-b", "html", "-c", str(SITE), "-W", "--keep-going", "--quiet"]
    subprocess.run([*sphinx, str(SOURCES), str(SITE / "html")], check=True)
    print(f"{SITE.relative_to(ROOT)}/html/index.html")


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
