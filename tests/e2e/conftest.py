"""The running app as a process, and Debian's Chromium with a file camera."""

import base64
import io
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, Playwright, sync_playwright

ROOT = Path(__file__).resolve().parents[2]
CHROMIUM = "/usr/bin/chromium"
START_S = 90
# An engine that speaks by itself; no models of speech, whose loading would disturb its pace.
SCRIPTED = ("--engine", "tests.fakes:create_talker", "--asr", "off", "--tts", "off", "--vad", "off")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--use-fake-ui-for-media-stream",
    "--use-fake-device-for-media-stream=fps=30",
    "--allow-loopback-in-peer-connection",
    "--autoplay-policy=no-user-gesture-required",
]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until(condition: Callable[[], Any], timeout_s: float, what: str) -> Any:
    """Poll `condition` until it is true; its value."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.05)
    raise AssertionError(f"not within {timeout_s} s: {what}")


@contextmanager
def running_app(log: Path, *flags: str, start_s: float = START_S) -> Iterator[str]:
    """`python app.py` with flags on a free port; its address once it is ready."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "app.py", "--port", str(port), *flags],
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            wait_until(lambda: is_ready(url, process), start_s, f"ready, see {log}")
            yield url
        finally:
            process.terminate()
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                process.kill()
                raise


def is_ready(url: str, process: subprocess.Popen[bytes]) -> bool:
    assert process.poll() is None, "the app ended"
    try:
        return httpx.get(f"{url}/readyz", timeout=2).status_code == 200
    except httpx.HTTPError:
        return False


@pytest.fixture(scope="session")
def app_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The app with its default, embedded engine."""
    with running_app(tmp_path_factory.mktemp("app") / "log.txt") as url:
        yield url


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    """Not longer than a module: while it is there, no asyncio test can run."""
    with sync_playwright() as value:
        yield value


@contextmanager
def chromium(playwright: Playwright, *flags: str) -> Iterator[Browser]:
    browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *flags])
    try:
        yield browser
    finally:
        browser.close()


class KillableChromium:
    """A Chromium of our own, to be killed without a word."""

    def __init__(self, playwright: Playwright, profile: Path) -> None:
        port = free_port()
        self._process = subprocess.Popen(
            [
                CHROMIUM,
                "--headless",
                *FLAGS,
                f"--remote-debugging-port={port}",
                f"--user-data-dir={profile}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        endpoint = f"http://127.0.0.1:{port}"
        wait_until(lambda: self._answers(endpoint), 30, "Chromium's debugging port")
        self.page = playwright.chromium.connect_over_cdp(endpoint).new_page()

    @staticmethod
    def _answers(endpoint: str) -> bool:
        try:
            return httpx.get(f"{endpoint}/json/version", timeout=1).status_code == 200
        except httpx.HTTPError:
            return False

    def kill(self) -> None:
        """SIGKILL, to all its processes; once is enough."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()


class Stage:
    """The page as a person uses it."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.errors: list[str] = []
        page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: self.errors.append(str(e)))
        page.goto(url)
        self.root = page.locator(".sightline")
        self.root.wait_for()

    def start(self) -> float:
        """Press Start; ms until the session was there, as the page measured it."""
        self.page.locator("[data-action=start]").click()
        self.page.locator(".sightline[data-state=live]").wait_for(timeout=20_000)
        connect = wait_until(lambda: self.root.get_attribute("data-connect-ms"), 10, "connected")
        return float(connect)

    def ask(self, text: str, *, wait: bool = True) -> "AnswerView":
        """Type a question and press Enter; the answer, its text whole unless told not to wait."""
        turns = self.page.locator(".turn")
        before = turns.count()
        box = self.page.locator("[data-field=question]")
        box.fill(text)
        box.press("Enter")
        turns.nth(before).wait_for(timeout=10_000)
        answer = AnswerView(turns.nth(before))
        if wait:
            answer.wait_for("speaking", "done")
        return answer

    def newest_thumbnail(self) -> np.ndarray | None:
        """What the camera preview shows now."""
        return _picture(
            self.page.evaluate(
                """() => {
                  const video = document.querySelector('[data-role=preview]');
                  if (!video || !video.videoWidth) return null;
                  const canvas = document.createElement('canvas');
                  canvas.width = 64; canvas.height = 48;
                  canvas.getContext('2d').drawImage(video, 0, 0, 64, 48);
                  return canvas.toDataURL('image/png');
                }"""
            )
        )


class AnswerView:
    """One turn in the transcript."""

    def __init__(self, turn: Any) -> None:
        self.turn = turn

    @property
    def status(self) -> str:
        return str(self.turn.get_attribute("data-status"))

    @property
    def text(self) -> str:
        return str(self.turn.locator(".answer-text").inner_text())

    def wait_for(self, *statuses: str, timeout_s: float = 15) -> None:
        what = " or ".join(statuses)
        wait_until(lambda: self.status in statuses, timeout_s, f"{what}, not {self.status}")

    @property
    def first_text_ms(self) -> float:
        """Question sent → first text painted, as the page measured it."""
        return float(self.turn.get_attribute("data-first-text-ms"))

    def frames(self) -> list[tuple[float, np.ndarray]]:
        """The consumed frames: time in s, picture."""
        expand = self.turn.locator(".frames button")
        if expand.count():
            expand.first.click()
        found = []
        for image in self.turn.locator(".frames img").all():
            picture = _picture(image.get_attribute("src"))
            assert picture is not None
            found.append((float(image.get_attribute("data-time-s")), picture))
        return found


def _picture(url: str | None) -> np.ndarray | None:
    if not url:
        return None
    data = base64.b64decode(url.partition(",")[2])
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
