"""What a person sees of an engine that fails, dies and comes back, and of what it counts."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect

from core.engines.base import EngineHealth, EngineInfo, EngineOutput, EngineRequest, EngineUsage
from core.errors import EngineError
from tests.e2e.conftest import Stage, chromium, running_app
from tests.fakes import ScriptedEngine

pytestmark = pytest.mark.e2e

MODEL = "Qwen/Qwen2.5-VL-3B-Instruct"
READY = EngineHealth("ready")
LOADING = EngineHealth("loading", f"Loading {MODEL}: 40 s so far")
DEAD = EngineHealth("loading", "The engine process died; it is being restarted")
FAILED = EngineHealth(
    "failed",
    f"--model {MODEL}: not enough memory (CUDA out of memory. Tried to allocate 2.32 GiB). Choose "
    "a smaller model or --max-model-len, or change --gpu-memory-utilization or --kv-cache-gib",
)
# Keeps the page's data channel, so that a test can be the server.
KEEP_CHANNEL = """
const create = RTCPeerConnection.prototype.createDataChannel;
RTCPeerConnection.prototype.createDataChannel = function (...args) {
  return (window.channel = create.apply(this, args));
};
"""
SEND = """(event) => window.channel.dispatchEvent(
  new MessageEvent("message", { data: JSON.stringify(event) }))"""


class Mortal(ScriptedEngine):
    """As healthy as a file says; a question with `die` in it kills it."""

    def __init__(self, health: Path) -> None:
        super().__init__(
            info=EngineInfo(
                "mortal", MODEL, "Dies when asked to.", context_tokens=32_768, images_per_prompt=32
            )
        )
        self._file = health

    async def health(self) -> EngineHealth:
        return EngineHealth(**json.loads(self._file.read_text()))

    async def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        request.submitted.set()
        yield EngineOutput(text_delta="A cup of ")
        if "die" in str(request.messages[-1].parts[-1]):
            write(self._file, DEAD)
            raise EngineError("engine_died", "The engine process died during the request.")
        yield EngineOutput(text_delta="coffee.")
        yield EngineOutput(usage=EngineUsage(1310, 1240), finish_reason="stop")


def create(settings: Any) -> Mortal:
    """The factory that `--engine` names."""
    return Mortal(Path(settings.engine_options["health"]))


def write(path: Path, health: EngineHealth) -> None:
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"status": health.status, "detail": health.detail}))
    part.replace(path)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("mortal")
    health = folder / "health.json"
    write(health, READY)
    options = json.dumps({"health": str(health)})
    engine = ("--engine", f"{__name__}:create", "--engine-options", options)
    speech = ("--asr", "off", "--tts", "off", "--vad", "off")
    with running_app(folder / "log.txt", *engine, *speech) as url:
        yield url, health


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    with chromium(playwright) as browser:
        yield browser


@pytest.fixture
def set_health(app: tuple[str, Path]) -> Iterator[Callable[[EngineHealth], None]]:
    """Say how the engine is; it is ready again afterwards."""
    yield lambda health: write(app[1], health)
    write(app[1], READY)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    page = browser.new_page(viewport={"width": 1360, "height": 860})
    page.add_init_script(KEEP_CHANNEL)
    broken: list[str] = []
    page.on("pageerror", lambda error: broken.append(str(error)))
    yield page
    page.close()
    assert not broken


def live(page: Page, app: tuple[str, Path]) -> Stage:
    stage = Stage(page, app[0])
    stage.start()
    expect(page.locator("[data-chip=kept]")).to_be_visible(timeout=10_000)
    return stage


def test_a_failed_engine_says_what_to_do_and_comes_back(
    page: Page, app: tuple[str, Path], set_health: Callable[[EngineHealth], None]
) -> None:
    set_health(FAILED)
    Stage(page, app[0])
    chip, card = page.locator("[data-chip=engine]"), page.locator(".card")
    expect(chip).to_contain_text("Not available")
    expect(card).to_contain_text(FAILED.detail)
    expect(card.locator("code").first).to_have_text("--model")
    chip.press("Enter")
    details = page.get_by_role("dialog", name="Engine")
    expect(details).to_contain_text(FAILED.detail)
    expect(details).to_contain_text("up to 32 images")
    page.set_viewport_size({"width": 390, "height": 844})
    for panel in (card, details):
        assert panel.evaluate("e => e.scrollWidth <= e.clientWidth")
    page.keyboard.press("Escape")
    expect(details).to_be_hidden()
    expect(chip).to_be_focused()
    set_health(READY)
    expect(chip).to_have_text(f"mortal · {MODEL}", timeout=8000)
    expect(card.locator(".engine-note")).to_be_hidden()


def test_a_death_in_the_middle_of_an_answer_loses_no_question(
    page: Page, app: tuple[str, Path], set_health: Callable[[EngineHealth], None]
) -> None:
    stage = live(page, app)
    dead = stage.ask("Will you die?", wait=False)
    dead.wait_for("error")
    expect(dead.turn).to_contain_text("is being restarted")
    assert dead.text.strip() == "A cup of"
    bar, again = page.locator("[data-role=engine-bar]"), dead.turn.get_by_text("Ask again")
    expect(bar).to_contain_text("The engine is restarting")
    expect(page.locator("[data-chip=engine]")).to_contain_text("Restarting")
    expect(again).to_be_disabled()
    refused = stage.ask("What is this?", wait=False)
    refused.wait_for("error")
    set_health(READY)
    expect(page.locator("[data-remark=engine]")).to_have_text("The engine is ready again.")
    expect(bar).to_be_hidden()
    box = page.locator("[data-field=question]")
    box.fill("half a quest")
    refused.turn.get_by_text("Ask again").press("Enter")
    answered = page.locator(".turn[data-status=done]")
    expect(answered).to_contain_text("A cup of coffee.")
    expect(answered).to_contain_text("What is this?")
    expect(refused.turn.get_by_text("Ask again")).to_have_count(0)
    expect(box).to_have_value("half a quest")


def test_a_question_to_a_loading_engine_is_kept(
    page: Page, app: tuple[str, Path], set_health: Callable[[EngineHealth], None]
) -> None:
    set_health(LOADING)
    stage = live(page, app)
    expect(page.locator("[data-role=engine-bar]")).to_contain_text("40 s so far")
    refused = stage.ask("What is this?", wait=False)
    refused.wait_for("error")
    expect(refused.turn).to_contain_text("Your question is kept")
    set_health(READY)
    refused.turn.get_by_text("Ask again").click()
    expect(page.locator(".turn[data-status=done]")).to_contain_text("A cup of coffee.")


def test_the_figures_are_in_the_engines_own_words(page: Page, app: tuple[str, Path]) -> None:
    stage = live(page, app)
    answer = stage.ask("What is this?")
    usage = answer.turn.locator(".usage")
    expect(usage.locator("summary")).to_have_text("1,240 of 1,310 tokens were ready")
    usage.locator("summary").press("Enter")
    expect(usage.locator("p")).to_contain_text("the other 70")
    stats = {"warmups": 7, "tokens_warmed": 2080, "tokens_reused": 1900, "tokens_computed": 120}
    stats |= {"tokens_wasted": 96, "context_tokens": 2184, "context_limit": 32_768}
    page.evaluate(SEND, {"type": "prefill.stats", **stats})
    figures = page.locator(".figures")
    expect(figures).to_contain_text("2,184 of 32,768 tokens")
    expect(figures).to_contain_text("2,080 tokens · 1,900 reused · 96 wasted")
    expect(figures.get_by_role("meter")).to_have_attribute("aria-valuenow", "2184")
    page.locator("[data-chip=engine]").click()
    expect(page.get_by_role("dialog", name="Engine")).to_contain_text("94 % of what the questions")
    words = """async ([all, ready, counts]) => {
      const { usageLine } = await import("/static/usage.js");
      const line = usageLine({ prompt_tokens: all, cached_tokens: ready }, counts);
      return line.querySelector("summary").textContent;
    }"""
    assert page.evaluate(words, [8, 7, "frames"]) == "7 of 8 frames were ready"
    assert page.evaluate(words, [8, 8, "frames"]) == "All 8 frames were ready"
    assert page.evaluate(words, [1, 1, "frames"]) == "The frame was ready"
    assert page.evaluate(words, [900, 0, "tokens"]) == "900 tokens in the prompt"


def test_what_left_the_context_is_one_quiet_line(page: Page, app: tuple[str, Path]) -> None:
    message = "The oldest 16 frames have left the model's context: it takes at most 32 images."
    event = {"type": "context.trimmed", "reason": "images_per_prompt", "message": message}
    event |= {"frames": 16, "exchanges": 1, "frames_left": 16}
    stage = live(page, app)
    lines = page.locator("[data-remark=trimmed]")
    stage.ask("What is this?").wait_for("done")
    page.evaluate(SEND, event)
    expect(lines).to_have_text([message])
    page.evaluate(SEND, event)
    expect(lines).to_have_text([f"{message} So far: 32 frames and 2 questions."])
    stage.ask("And now?").wait_for("done")
    page.evaluate(SEND, event)
    expect(lines).to_have_count(2)
    order = page.locator(".transcript > :is(.turn, .remark)").evaluate_all(
        "all => all.map(e => e.classList[0]).join(' ')"
    )
    assert order == "turn remark turn remark"
