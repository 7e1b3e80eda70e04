"""A headless Chromium over the DevTools protocol: enough to open a page and look at what happened."""

import asyncio
import base64
import json
import shutil
import subprocess
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import aiohttp

from tests.patience import PATIENCE_S

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
)
Result = TypeVar("Result")


def chromium() -> str | None:
    """Path of an installed Chromium or Chrome."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


class Page:
    """One tab: what it logged, what it asked the network for."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self.console: list[str] = []
        self.requests: list[str] = []

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """One command; events that arrive before its answer are noted."""
        self._number += 1
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        while True:
            message = json.loads((await self._socket.receive(timeout=PATIENCE_S)).data)
            if message.get("id") == self._number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return dict(message["result"])
            self._note(message)

    def _note(self, message: dict[str, Any]) -> None:
        parameters = message.get("params", {})
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.console.append(str(parameters["exceptionDetails"].get("exception", parameters)))
            case "Log.entryAdded" if parameters["entry"]["level"] in {"error", "warning"}:
                self.console.append(parameters["entry"]["text"])
            case "Runtime.consoleAPICalled" if parameters["type"] in {"error", "warning", "assert"}:
                self.console.append(str([item.get("value") for item in parameters["args"]]))
            case "Network.requestWillBeSent":
                self.requests.append(parameters["request"]["url"])

    async def open(self, path: Path, *, width: int, height: int = 1000, dark: bool = False) -> None:
        """Load a file and wait until its charts are drawn."""
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.call(f"{domain}.enable")
        await self.resize(width, height)
        scheme = "dark" if dark else "light"
        await self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        await self.call("Page.navigate", url=path.as_uri())
        await self.settle()

    async def resize(self, width: int, height: int = 1000) -> None:
        mobile = width < 600
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile
        )

    async def settle(self) -> None:
        """Until loaded and two frames were drawn."""
        wait = (
            "new Promise(done => { const go = () => requestAnimationFrame(() => requestAnimationFrame(() => "
            "setTimeout(done, 50))); document.readyState === 'complete' ? go() : addEventListener('load', go); })"
        )
        await self.evaluate(wait)

    async def evaluate(self, expression: str) -> Any:
        """Value of a JavaScript expression (promises awaited)."""
        answer = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    async def screenshot(self, target: Path, *, whole: bool = True, clip: Mapping[str, float] | None = None) -> None:
        """As PNG: the whole page, what the window shows, or a part in CSS pixels (`x`, `y`, `width`, `height`)."""
        part = {"clip": {**clip, "scale": 1}} if clip else {}
        answer = await self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **part)
        target.write_bytes(base64.b64decode(answer["data"]))


def visit(folder: Path, steps: Callable[[Page], Awaitable[Result]]) -> Result:
    """Run `steps` with a page of a fresh browser, whose profile lies in `folder`."""
    return asyncio.run(_visit(folder, steps))


def looked(
    text: str, folder: Path, *expressions: str, width: int = 1440, height: int = 1000
) -> tuple[list[Any], list[str]]:
    """Values of JavaScript expressions on a page, one after the other, and what its console had; `text`: its HTML."""
    path = folder / "page.html"
    path.write_text(text, encoding="utf-8")

    async def steps(page: Page) -> tuple[list[Any], list[str]]:
        await page.open(path, width=width, height=height)
        return [await page.evaluate(each) for each in expressions], page.console

    return visit(folder / "profile", steps)


async def _visit(folder: Path, steps: Callable[[Page], Awaitable[Result]]) -> Result:
    binary = chromium()
    if binary is None:
        raise RuntimeError("no Chromium is installed")
    process = subprocess.Popen(
        [binary, *FLAGS, f"--user-data-dir={folder}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        port = await _port(folder / "DevToolsActivePort", process)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                pages = [item for item in await answer.json() if item["type"] == "page"]
            async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                return await steps(Page(socket))
    finally:
        process.terminate()
        process.wait(timeout=PATIENCE_S)


async def _port(path: Path, process: subprocess.Popen[bytes]) -> int:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline and process.poll() is None:
        if path.exists() and (text := path.read_text()):
            return int(text.splitlines()[0])
        await asyncio.sleep(0.05)
    raise RuntimeError("Chromium did not start")
