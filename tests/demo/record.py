# SPDX-License-Identifier: BSD-2-Clause
"""Record what README.md shows of the collection, on the cluster that `make cluster` starts: what `make recording` runs.

docs/terminal.svg is a drawing of tests/demo/terminal.ansi, which is what the commands print. docs/sft.kubernetes.yaml
has the objects that the first manifest of README.md becomes, as check mode shows them.
"""

from __future__ import annotations

import io
import os
import re
import tempfile
from pathlib import Path

from tests.demo.cluster import EXAMPLES, ROOT, environment, provisioned
from tests.demo.terminal import Terminal
from tests.integration.documents import blocks_of

COLUMNS = 112
RECORDING = Path(__file__).with_name("terminal.ansi")
DRAWING = ROOT / "docs" / "terminal.svg"
OBJECTS = ROOT / "docs" / "sft.kubernetes.yaml"
SUBMIT = "ansible-playbook runwhere.gpuctl.submit -e gpuctl_namespace=team-a"
OTHERS = ("training-full-finetune", "inference-vllm", "notebook-jupyter", "training-llama-factory")
# What others have submitted before, and after it.
BEFORE = [f"{SUBMIT} -e gpuctl_src={EXAMPLES / 'manifests' / name}.yaml -e gpuctl_wait=true" for name in OTHERS]
AFTER = [f"{SUBMIT} -e gpuctl_src={Path(__file__).with_name('evaluation.yaml')}"]
CHECK = f"ANSIBLE_FORCE_COLOR=0 {SUBMIT} -e gpuctl_src=sft.yaml --check --diff"
SHOWN_FIRST = (
    "ansible-playbook runwhere.gpuctl.submit -e gpuctl_src=sft.yaml -e gpuctl_namespace=team-a -e gpuctl_wait=true"
)
SHOWN_LAST = "ansible-playbook runwhere.gpuctl.status"
_LICENCE = Path(__file__).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
_FONTS = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="gpuctl-recording-") as directory:
        objects, recording = record(Path(directory))
    OBJECTS.write_text(objects, encoding="utf-8")
    RECORDING.write_text(recording, encoding="utf-8")
    DRAWING.write_text(drawn(recording), encoding="utf-8")


def record(directory: Path) -> tuple[str, str]:
    """The objects, and what the terminal shows."""
    (manifest,) = [block for block in blocks_of("README.md") if block.file == "sft.yaml"]
    (directory / "sft.yaml").write_text(manifest.text, encoding="utf-8")
    kubeconfig = directory / "cluster.kubeconfig"
    with provisioned(kubeconfig), Terminal(directory, _variables(directory, kubeconfig)) as terminal:
        objects = _objects(_typed(terminal, CHECK))
        for command in BEFORE:
            _typed(terminal, command)
        first = _shown(terminal, SHOWN_FIRST)
        for command in AFTER:
            _typed(terminal, command)
        return objects, f"{first}\n{_shown(terminal, SHOWN_LAST)}"


def drawn(recording: str) -> str:
    """The recording as SVG. Its colours are legible on dark and on light pages, because it has a background."""
    from rich.console import Console
    from rich.terminal_theme import MONOKAI
    from rich.text import Text

    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(recording.rstrip("\n")), soft_wrap=True)
    svg = console.export_svg(title="runwhere.gpuctl", theme=MONOKAI, unique_id="gpuctl", code_format=_svg_format())
    return f"<!-- {_LICENCE} -->\n{svg.rstrip()}\n"


def _svg_format() -> str:
    """Rich's, with fonts of the reader's machine: pages do not load those that a picture names by their address."""
    from rich._export_format import CONSOLE_SVG_FORMAT

    local = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    return local.replace("Fira Code, monospace", _FONTS)


def _variables(directory: Path, kubeconfig: Path) -> dict[str, str]:
    return {
        **environment(kubeconfig),
        "ANSIBLE_FORCE_COLOR": "1",
        "COLUMNS": str(COLUMNS),
        "HOME": str(directory),
        "LC_ALL": "C.UTF-8",
        "PATH": os.environ["PATH"],
    }


def _shown(terminal: Terminal, command: str) -> str:
    return f"\x1b[1m$ {command}\x1b[0m\n{_typed(terminal, command)}"


def _typed(terminal: Terminal, command: str) -> str:
    answer = terminal.type(command)
    if answer.status:
        raise SystemExit(f"{command}\n{answer.output}")
    return answer.output


def _objects(shown: str) -> str:
    """The YAML in the differences, without the account that recorded it."""
    lines = [line[1:] for line in shown.splitlines() if re.match(r"\+(?!\+\+ )", line)]
    text = "\n".join(line for line in lines if "runwhere.ai/submitted-by" not in line)
    return f"# {_LICENCE}\n---\n" + text.replace("\napiVersion: ", "\n---\napiVersion: ") + "\n"


if __name__ == "__main__":
    main()
