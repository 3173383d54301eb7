# SPDX-License-Identifier: BSD-2-Clause
"""A headless Chromium that opens a file, driven over its DevTools protocol: sizes, colours, requests, accessibility."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import tarfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from .ansible import ROOT

_AXE = "axe-core@4.10.3"  # https://github.com/dequelabs/axe-core, MPL-2.0: fetched, never shipped
_START = 60.0  # seconds


class Browser:
    """One page. ``requests`` are the addresses that it has asked for, the file itself among them."""

    def __init__(self, address: str) -> None:
        import websocket

        self._socket = websocket.create_connection(address, timeout=60, suppress_origin=True)
        self._numbers = itertools.count(1)
        self._events: list[dict[str, Any]] = []
        self.requests: list[str] = []
        for domain in ("Page", "Network", "Runtime"):
            self.send(f"{domain}.enable")

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = self._receive()
            if message.get("id") == number:
                assert "error" not in message, (method, message["error"])
                result: dict[str, Any] = message["result"]
                return result

    def _receive(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(self._socket.recv())
        if message.get("method") == "Network.requestWillBeSent":
            self.requests.append(message["params"]["request"]["url"])
        if "method" in message:
            self._events.append(message)
        return message

    def open(self, file: Path, *, width: int, dark: bool = False) -> None:
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.send("Emulation.setScrollbarsHidden", hidden=True)
        scheme = "dark" if dark else "light"
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self._events.clear()
        self.send("Page.navigate", url=file.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._receive()

    def evaluate(self, expression: str) -> Any:
        answer = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def picture(self, file: Path, *, height: int | None = None) -> None:
        """The page as a PNG, from its top."""
        full = self.send("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": full["width"], "height": height or full["height"], "scale": 1}
        answer = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        file.write_bytes(base64.b64decode(answer["data"]))

    def accessibility_problems(self) -> list[str]:
        """What axe-core finds wrong, by WCAG 2.2 AA and its best practices."""
        self.evaluate(axe_source() + ";0")
        found = self.evaluate("axe.run().then(r => JSON.stringify(r.violations))")
        return [
            f"{violation['id']}: {violation['help']}: {node['html']}"
            for violation in json.loads(found)
            for node in violation["nodes"]
        ]


@contextmanager
def chromium(directory: Path) -> Iterator[Browser]:
    """Skips the test where there is no Chromium."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("Chromium is not installed")
    profile = directory / "profile"
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
    process = subprocess.Popen(
        [program, *options, "--remote-debugging-port=0", f"--user-data-dir={profile}", "about:blank"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield Browser(_address_of_page(profile / "DevToolsActivePort", process))
    finally:
        process.terminate()
        process.wait(30)


def _address_of_page(file: Path, process: subprocess.Popen[bytes]) -> str:
    import requests

    deadline = time.monotonic() + _START
    while time.monotonic() < deadline and process.poll() is None:
        if file.exists() and (port := file.read_text().partition("\n")[0]):
            with requests.Session() as session:
                session.trust_env = False  # no proxy
                pages = session.get(f"http://127.0.0.1:{port}/json/list", timeout=30).json()
            for page in pages:
                if page["type"] == "page":
                    return str(page["webSocketDebuggerUrl"])
        time.sleep(0.2)
    raise AssertionError("Chromium has not started")


def axe_source() -> str:
    """axe-core, from the package index of npm. Skips the test where it cannot be had."""
    directory = ROOT / ".cache" / "axe"
    archive = directory / f"{_AXE.replace('@', '-')}.tgz"
    if not archive.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("npm is not installed, which brings axe-core")
        directory.mkdir(parents=True, exist_ok=True)
        try:
            done = subprocess.run([npm, "pack", _AXE], cwd=directory, capture_output=True, text=True, timeout=120)
        except subprocess.TimeoutExpired:
            pytest.skip("axe-core cannot be downloaded within two minutes")
        if done.returncode:
            pytest.skip(f"axe-core cannot be downloaded: {done.stderr.strip()[-200:]}")
    with tarfile.open(archive) as packed:
        source = packed.extractfile("package/axe.min.js")
        assert source is not None
        return source.read().decode()
