# SPDX-License-Identifier: BSD-2-Clause
"""extras/gpuctl.sh, and the table of its commands in the guides.

They come from tools/gpuctl_commands.yml and playbooks/vars/playbooks.yml. tools/generate_reference.py writes them.
"""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / ".cache" / "collections"))

from ansible_collections.runwhere.gpuctl.plugins.plugin_utils.playbook_variables import (  # noqa: E402
    Playbook,
    described_playbooks,
)

SHELL = ROOT / "extras" / "gpuctl.sh"
GUIDES = tuple(ROOT / "docs" / "docsite" / "rst" / f"guide_from_gpuctl{language}.rst" for language in ("", "_zh"))
BEGIN = ".. Generated from tools/gpuctl_commands.yml by tools/generate_reference.py\n"
END = ".. End of what is generated\n"
_TEMPLATE = Path(__file__).with_name("gpuctl.sh.in")
_COMMANDS = Path(__file__).with_name("gpuctl_commands.yml")
_FORMER_NAMES = {"notebook_copy"}
# What the words after a command set, and how they are shown.
_WORDS = {
    "files": ("many", "", "-f FILE..."),
    "name": ("one", "gpuctl_name", "NAME"),
    "job": ("one", "gpuctl_name", "[NAME]"),
    "namespace": ("one", "gpuctl_namespace", "[NAMESPACE]"),
    "pool": ("one", "gpuctl_pool", "[POOL]"),
    "nodes": ("many", "gpuctl_node", "[NODE...]"),
    "labels": ("labels", "gpuctl_node_labels", "NODE... KEY=VALUE | NODE... KEY --delete"),
    "copy": ("copy", "", "JOB:PATH PATH | PATH JOB:PATH"),
    "none": ("one", "", ""),
}


@dataclass(frozen=True)
class Command:
    """A command of the function, by the words after gpuctl."""

    name: str
    summary: str
    words: str
    playbook: Playbook | None = None
    module: str = ""
    arguments: str = ""
    sets: Mapping[str, Any] | None = None
    spellings: Mapping[str, str] | None = None
    requires: Sequence[str] = ()
    no_names: str = ""
    declared: Sequence[str] = ()

    @property
    def usage(self) -> str:
        """With its words, and the options that it requires."""
        _takes, into, words = _WORDS[self.words]
        spelled = {name: option for option, name in (self.spellings or {}).items()}
        options = [f"{spelled[name]} {name.removeprefix('gpuctl_').upper()}" for name in self.requires if name != into]
        return " ".join(["gpuctl", self.name, words.strip("[]") if into in self.requires else words, *options]).strip()

    @property
    def runs(self) -> str:
        """The command line that it stands for, without what is typed."""
        if not self.playbook:
            return f"ansible localhost -m runwhere.gpuctl.{self.module} -a '{self.arguments}'"
        sets = (f" -e {name}={_plain(value)}" for name, value in (self.sets or {}).items())
        return f"ansible-playbook {self.playbook.full_name}{''.join(sets)}"

    @property
    def options(self) -> list[str]:
        """Those that its playbook does not have."""
        variables = self.playbook.variables if self.playbook else {}
        spelled = [_option(option, name, variables) for option, name in (self.spellings or {}).items()]
        return [*spelled, *(["--delete,remove"] if self.words == "labels" else [])]


def commands() -> list[Command]:
    """Those of tools/gpuctl_commands.yml, and the playbooks by their own names."""
    described: dict[str, Any] = yaml.safe_load(_COMMANDS.read_text(encoding="utf-8"))
    own = [_command(name, facts) for name, facts in described.items()]
    return [*own, *(each for each in _playbook_commands() if each.name not in described)]


def _command(name: str, facts: Mapping[str, Any]) -> Command:
    playbook = described_playbooks().get(facts.get("playbook", ""))
    module = facts.get("module", "")
    arguments = json.dumps(facts.get("arguments", {}))
    spellings = facts.get("options", {})
    return Command(
        name,
        facts["summary"],
        facts["words"],
        playbook,
        module,
        arguments,
        facts.get("sets"),
        spellings,
        facts.get("requires", ()),
        facts.get("no_names", ""),
        facts.get("declared", ()),
    )


def _playbook_commands() -> Iterator[Command]:
    for playbook in described_playbooks().values():
        name = playbook.name.replace("_", "-")
        if playbook.name not in _FORMER_NAMES:
            yield Command(name, playbook.short_description, _words_of(playbook), playbook)


def _words_of(playbook: Playbook) -> str:
    names = [name for name, each in playbook.variables.items() if each.required]
    names += [group[0] for group in playbook.required_one_of]
    if "gpuctl_name" in names:
        return "name"
    if playbook.name in ("status", "history"):
        return "job"
    return "files" if {"gpuctl_dir", "gpuctl_src"} & set(names) else "none"


def _options_of(playbook: Playbook) -> list[str]:
    """``--pool=gpuctl_pool`` takes a value, ``--wait,gpuctl_wait`` none, ``-f+gpuctl_src`` one of several.

    ``--yes`` confirms: with the word that the playbook asks for, or for a sweep, with its name once more.
    """
    variables = playbook.variables
    own = {f"--{name.removeprefix('gpuctl_').replace('_', '-')}": name for name in variables}
    kubectl = {"-n": "gpuctl_namespace", "-A": "gpuctl_all_namespaces"}
    short = {option: name for option, name in kubectl.items() if name in variables}
    if confirm := variables.get("gpuctl_confirm"):
        short["--yes"] = f"gpuctl_confirm={confirm.choices[0] if confirm.choices else '{{gpuctl_name|default}}'}"
    files = _files_variable(playbook)
    # A secret does not belong on a command line.
    secret = {name for name, each in variables.items() if each.secret}
    given = [_option(option, name, variables) for option, name in {**short, **own}.items() if name not in secret]
    return [*([f"-f+{files}"] if files else []), *given]


def _files_variable(playbook: Playbook | None) -> str:
    variables = playbook.variables if playbook else {}
    return next((name for name in ("gpuctl_dir", "gpuctl_src") if name in variables), "")


def _option(option: str, name: str, variables: Mapping[str, Any]) -> str:
    variable, _is, value = name.partition("=")
    is_flag = value or (variable in variables and variables[variable].type == "bool")
    return f"{option},{name}" if is_flag else f"{option}={name}"


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def shell() -> str:
    """The file that users source."""
    return _TEMPLATE.read_text(encoding="utf-8").replace("@GENERATED@", "\n".join(_tables()))


def _tables() -> Iterator[str]:
    yield "# Generated from tools/gpuctl_commands.yml and playbooks/vars/playbooks.yml by tools/generate_reference.py."
    found = commands()
    first = dict.fromkeys(each.name.partition(" ")[0] for each in found)
    yield f'_gpuctl_first="{" ".join(first)}"'
    yield '\n_gpuctl_second() {\n  case "$1" in'
    for verb in first:
        if seconds := [each.name.partition(" ")[2] for each in found if each.name.startswith(f"{verb} ")]:
            yield f"    {verb}) echo {' '.join(seconds)} ;;"
    yield "  esac\n}\n"
    yield '_gpuctl_command() {\n  case "$1" in'
    for each in found:
        yield from _case(each)
    yield "    *) return 1 ;;\n  esac"
    yield '  case "$book" in'
    for playbook in dict.fromkeys(each.playbook.name for each in found if each.playbook):
        yield f'    {playbook}) opts="{" ".join(_options_of(described_playbooks()[playbook]))} $opts" ;;'
    yield "  esac\n}\n"
    yield "_gpuctl_help() {\n  cat <<'END'"
    yield "gpuctl COMMAND, which is one of:\n"
    yield from (line for each in found for line in _help(each))
    yield "\ngpuctl COMMAND --help lists its options. --check shows what it would change.\nEND\n}\n"


def _help(command: Command) -> list[str]:
    """What it is for, beside its words where they leave room on a terminal of 80 columns."""
    words = command.usage.removeprefix("gpuctl ")
    text = [f"{'':<32}{line}" for line in textwrap.wrap(command.summary, 48)]
    return [f"{words:<32}{text[0].strip()}", *text[1:]] if len(words) <= 30 else [words, *text]


def _case(command: Command) -> Iterator[str]:
    takes, into, _shown = _WORDS[command.words]
    into = _files_variable(command.playbook) if command.words == "files" else into
    runs = (
        f"book={command.playbook.name}" if command.playbook else f"module={command.module} args='{command.arguments}'"
    )
    fixed = " ".join(f"{name}={_plain(value)}" for name, value in (command.sets or {}).items())
    yield f'    "{command.name}")'
    yield f"      {runs} takes={takes} into='{into}' fixed='{fixed}'"
    yield f"      summary='{command.usage}'"
    yield f"      opts='{' '.join(command.options)}'"
    if command.requires:
        yield f"      needs='{' '.join(command.requires)}'"
    if command.no_names:
        yield f"      names='{command.no_names}' declared='{' '.join(command.declared)}'"
    yield "      ;;"


def table() -> str:
    """The commands and what they run, in reStructuredText."""
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: 40 60", "", "   * - gpuctl", "     - Ansible"]
    for each in commands():
        if each.playbook is None or each.name != each.playbook.name.replace("_", "-"):
            lines += [f"   * - ``{each.usage}``", f"     - ``{each.runs}``"]
    return "\n".join([*lines, ""])


def files() -> dict[Path, str]:
    """The text of each file that is generated, wholly or between two marks."""
    return {SHELL: shell(), **{path: _with_table(path) for path in GUIDES if path.exists()}}


def _with_table(path: Path) -> str:
    before, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _former, end, after = rest.partition(END)
    return f"{before}{begin}\n{table()}\n{end}{after}" if begin and end else before
