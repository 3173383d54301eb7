# SPDX-License-Identifier: BSD-2-Clause
"""What an attacker writes where text goes, and how to see that it did not work."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

# Clears the screen, sets the title and the clipboard (OSC 52), overwrites the line; C1's CSI; an override of the
# direction of text, and an invisible character.
ESCAPES = "\x1b[2J\x1b]0;title\x07\x1b]52;c;ZXZpbA==\x07\r\x9b31m\u202egnp.exe\u202c\u200b"
SHOWN = r"\x1b[2J\x1b]0;title\x07\x1b]52;c;ZXZpbA==\x07\x0d\x9b31m\u202egnp.exe\u202c\u200b"


def acts_on_a_terminal(text: str) -> bool:
    return any(character in text for character in "\x1b\x07\r\x9b\u202e\u202c\u200b")


@dataclass(frozen=True)
class Trap:
    """A file that exists as soon as a text of the attacker has been run as a template or a command."""

    file: Path

    @property
    def template(self) -> str:
        return f"{{{{ lookup('ansible.builtin.pipe', 'touch {self.file}') }}}}"

    @property
    def statement(self) -> str:
        return f"{{% set x = lookup('ansible.builtin.pipe', 'touch {self.file}') %}}"

    @property
    def unsafe(self) -> str:
        """A tag of YAML, for a program that loads the text again."""
        return f"!unsafe {self.template}"

    @property
    def header(self) -> str:
        """Other delimiters, as in the first line of a template."""
        return (
            f"#jinja2: variable_start_string:'[[', variable_end_string:']]'\n[[ lookup('pipe', 'touch {self.file}') ]]"
        )

    @property
    def literals(self) -> list[str]:
        """Templates once the text has been read as Python: jinja2_native, and lists before ansible-core 2.19."""
        command = f'lookup("ansible.builtin.pipe", "touch {self.file}")'
        return [f"['{{' '{{ {command} }}}}']", rf"'\x7b\x7b {command} }}}}'"]

    @property
    def option(self) -> str:
        return f"-oProxyCommand=touch${{IFS}}{self.file}"

    @property
    def texts(self) -> list[str]:
        return [self.template, self.statement, self.unsafe, self.header, *self.literals]

    @property
    def sprung(self) -> bool:
        return self.file.exists()


@contextmanager
def serving(answer: Callable[[str], tuple[int, dict[str, Any]]]) -> Iterator[str]:
    """The URL of a server that answers each GET of a path as a real one would not."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, content = answer(self.path.partition("?")[0])
            body = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *dummy: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
