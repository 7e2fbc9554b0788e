"""A new question interrupts an answer: text stops, and speech falls silent in the browser."""

from pathlib import Path

import pytest
from playwright.sync_api import Playwright

from tests.e2e.conftest import SCRIPTED, Stage, chromium, running_app, wait_until

pytestmark = pytest.mark.e2e

# Records how loud the page's speaker is, every 10 ms: [ms, RMS 0 to 1].
LISTEN = """() => {
  const audio = document.querySelector('[data-role=speaker]');
  const context = new AudioContext();
  const analyser = context.createAnalyser();
  analyser.fftSize = 512;
  context.createMediaStreamSource(audio.srcObject).connect(analyser);
  const samples = new Float32Array(analyser.fftSize);
  window.heard = [];
  setInterval(() => {
    analyser.getFloatTimeDomainData(samples);
    const rms = Math.sqrt(samples.reduce((sum, x) => sum + x * x, 0) / samples.length);
    window.heard.push([performance.now(), rms]);
  }, 10);
}"""
LOUD = 0.05


def test_a_new_question_silences_the_old_answer(playwright: Playwright, tmp_path: Path) -> None:
    with (
        running_app(tmp_path / "log.txt", *SCRIPTED) as url,
        chromium(playwright) as browser,
    ):
        stage = Stage(browser.new_page(), url)
        stage.start()
        wait_until(lambda: stage.page.locator("[data-chip=kept]").count(), 5, "frames kept")
        stage.page.evaluate(LISTEN)
        first = stage.ask("Tell me a long story", wait=False)
        first.wait_for("streaming")

        def loudness() -> float:
            return float(stage.page.evaluate("() => window.heard.at(-1)?.[1] ?? 0"))

        wait_until(lambda: loudness() > LOUD, 5, "the tone is heard")
        asked_ms = float(stage.page.evaluate("() => performance.now()"))
        stage.page.keyboard.press("Escape")
        first.wait_for("interrupted")
        stage.page.wait_for_timeout(600)  # of sound to look at
        heard = stage.page.evaluate("() => window.heard")
        loud = [at for at, rms in heard if rms > LOUD]
        silence_ms = loud[-1] - asked_ms
        print(f"\ninterrupt → silence {silence_ms:.0f} ms")
        assert silence_ms < 300
        second = stage.ask("And now?", wait=False)
        second.wait_for("streaming")
        third = stage.ask("Another", wait=False)
        third.wait_for("streaming")
        assert second.status == "interrupted"
        assert first.text.startswith("0")
