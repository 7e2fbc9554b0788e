"""The in-process vLLM engine, on real vLLM with tiny real checkpoints."""

import asyncio
import uuid
from dataclasses import replace
from typing import Any
from unittest.mock import Mock

import pytest

from core.context import Context, Dropped, Exchange
from core.engines import vllm_prompt
from core.engines.base import EngineRequest, ImagePart, Message, TextPart
from core.engines.sampling import SamplingParams
from core.engines.vllm import create
from core.errors import EngineError, PromptTooLong
from core.frames import NO_SOURCE, Frame, FrameInput
from core.prompt import Layout, prompt
from core.protocol import SessionConfig
from core.timeline import FrameTimeline
from tests.engines.conftest import START_S, until_ready, vllm_settings
from tests.engines.conversation import computed_tokens, converse
from tests.engines.neighbours import Neighbours, scheduled_ahead
from tests.engines.recorder import Recorder
from tests.fakes import Harness, frame, jpeg, picture

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.asyncio(loop_scope="session"),
    pytest.mark.timeout(START_S),
]

BLOCK_TOKENS = 32


def image(number: int) -> ImagePart:
    return ImagePart(picture(number, 160, 120), f"content-{number}", float(number))


def request(*parts: ImagePart | str, **fields: Any) -> EngineRequest:
    content = tuple(TextPart(part) if isinstance(part, str) else part for part in parts)
    defaults = {
        "max_tokens": 8,
        "session_id": uuid.uuid4().hex,
        "sampling": (SamplingParams(temperature=0.0),),
    }
    return EngineRequest(
        uuid.uuid4().hex,
        messages=(Message("user", content),),
        **(defaults | fields),
    )


async def outputs(engine: Recorder, asked: EngineRequest) -> list[Any]:
    async with asyncio.timeout(60):
        return [output async for output in engine.generate(asked)]


async def test_what_it_can_do_is_read_from_the_model(tiny_vlm: Recorder) -> None:
    info = tiny_vlm.info
    assert info.input_modalities == {"text", "image"}
    assert (info.context_tokens, info.images_per_prompt) == (4096, 32)
    assert info.prefix_caching
    assert not info.hears
    assert (await tiny_vlm.health()).status == "ready"


async def test_an_answer_is_deltas_then_usage(tiny_vlm: Recorder) -> None:
    asked = request(image(1), "What do you see?")
    got = await outputs(tiny_vlm, asked)
    assert asked.submitted.is_set()
    assert len([output for output in got if output.text_delta]) > 1
    assert got[-1].finish_reason in ("stop", "length")
    assert got[-1].usage.prompt_tokens > 5
    again = await outputs(tiny_vlm, replace(asked, request_id="again", submitted=asyncio.Event()))
    assert [o.text_delta for o in again] == [o.text_delta for o in got]


async def test_a_warm_up_says_nothing_and_the_question_reuses_it(tiny_vlm: Recorder) -> None:
    images = [image(n) for n in range(20)]
    session = uuid.uuid4().hex
    (warm,) = await outputs(
        tiny_vlm, request(*images, session_id=session, max_tokens=1, prefill_only=True)
    )
    assert warm.text_delta == ""
    last = (await outputs(tiny_vlm, request(*images, "What came first?", session_id=session)))[-1]
    reusable = warm.usage.prompt_tokens // BLOCK_TOKENS * BLOCK_TOKENS
    assert reusable >= 2 * BLOCK_TOKENS
    assert last.usage.cached_tokens == reusable


async def test_no_session_finds_another_ones_cache(tiny_vlm: Recorder) -> None:
    images = [image(n) for n in range(20)]
    await outputs(tiny_vlm, request(*images, "What came first?", session_id="one"))
    same = await outputs(tiny_vlm, request(*images, "What came first?", session_id="one"))
    other = await outputs(tiny_vlm, request(*images, "What came first?", session_id="other"))
    assert same[-1].usage.cached_tokens > 0
    assert other[-1].usage.cached_tokens == 0


async def test_a_repeated_frame_is_not_processed_again(
    tiny_vlm: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    processor = tiny_vlm.engine._llm.renderer.mm_processor
    processed: list[int] = []

    def count(data: Any, kwargs: Any) -> Any:
        processed.append(len(data["images"]))
        return whole(data, kwargs)

    whole = processor._call_hf_processor
    monkeypatch.setattr(processor, "_call_hf_processor", count)
    first, second = (ImagePart(picture(n, 160, 120), f"repeated-{n}", float(n)) for n in (1, 2))
    await outputs(tiny_vlm, request(first, "What is it?"))
    await outputs(tiny_vlm, request(first, second, "And now?"))
    await outputs(tiny_vlm, request(first, second, "And then?"))
    assert processed == [1, 1]


async def test_a_known_frame_is_named_and_its_picture_not_touched(
    tiny_vlm: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    pillow = Mock(wraps=vllm_prompt.Image)  # the renderer's alone
    monkeypatch.setattr(vllm_prompt, "Image", pillow)
    seen = [image(900 + number) for number in range(6)]
    first = request(*seen, "What do you see?")
    await outputs(tiny_vlm, first)
    assert pillow.fromarray.call_count == 6
    await outputs(tiny_vlm, request(*seen, image(906), "And now?"))
    assert pillow.fromarray.call_count == 7


async def test_a_picture_that_vllm_has_let_go_of_is_sent_again(tiny_vlm: Recorder) -> None:
    lost = image(950)
    tiny_vlm.engine._renderer._processed[lost.content_id] = None
    got = await outputs(tiny_vlm, request(lost, "What do you see?"))
    assert got[-1].finish_reason in ("stop", "length")


async def test_sampling_is_the_requests_own_and_the_defaults_stay(tiny_vlm: Recorder) -> None:
    short = (SamplingParams(max_tokens=2, temperature=0.0, ignore_eos=True),)
    before = tiny_vlm.engine._llm.model_config.get_diff_sampling_param()
    asked = request(image(1), "What do you see?", sampling=short, max_tokens=None)
    params = tiny_vlm.engine._sampling(tiny_vlm.engine._llm, asked, 10)
    assert (params.max_tokens, params.temperature, params.ignore_eos) == (2, 0.0, True)
    assert params.output_kind.name == "DELTA"
    assert (await outputs(tiny_vlm, asked))[-1].finish_reason == "length"
    plain = tiny_vlm.engine._sampling(
        tiny_vlm.engine._llm, request("?", max_tokens=None), prompt_tokens=4096 - 100
    )
    assert plain.max_tokens == 100, "never more than there is room for"
    assert tiny_vlm.engine._llm.model_config.get_diff_sampling_param() == before


async def test_closing_an_answer_ends_it_in_the_engine(tiny_vlm: Recorder) -> None:
    endless = (SamplingParams(max_tokens=3000, ignore_eos=True),)
    asked = request(image(1), "?", sampling=endless, max_tokens=None)
    stream = tiny_vlm.generate(asked)
    await anext(stream)
    llm = tiny_vlm.engine._llm
    assert llm.get_num_unfinished_requests() == 1
    await stream.aclose()  # type: ignore[attr-defined]
    await tiny_vlm.abort(asked.request_id)
    assert llm.get_num_unfinished_requests() == 0


async def test_a_prompt_over_the_models_limits_says_so_before_it_is_sent(
    tiny_vlm: Recorder,
) -> None:
    with pytest.raises(PromptTooLong, match="33 images, the model takes 32"):
        await outputs(tiny_vlm, request(*(image(n) for n in range(33)), "?"))
    with pytest.raises(PromptTooLong, match="10009 tokens, the model takes 4096"):
        await outputs(tiny_vlm, request(image(1), "why " * 5000))
    fits_no_question = request(image(1), "why " * 3700, prefill_only=True)
    with pytest.raises(PromptTooLong):
        await outputs(tiny_vlm, fits_no_question)


@pytest.mark.parametrize(
    "typed", ["<image>", "<IMAGE>", "<|im_start|>system:", "<end_of_utterance>"]
)
async def test_special_tokens_that_a_person_types_are_only_text(
    tiny_vlm: Recorder, typed: str
) -> None:
    """One image token too many ends vLLM's engine process, for all sessions."""
    renderer, limits = tiny_vlm.engine._renderer, tiny_vlm.engine._limits
    tokenizer = tiny_vlm.engine._llm.renderer.get_tokenizer()
    asked = request(image(1), f"what is {typed} here?")
    plain = request(image(1), "what is here?")
    special = set(tokenizer.all_special_ids)

    async def specials(one: EngineRequest) -> list[int]:
        tokens = (await renderer.prompt(one, limits))["prompt_token_ids"]
        return [token for token in tokens if token in special]

    assert await specials(asked) == await specials(plain)
    assert (await outputs(tiny_vlm, asked))[-1].finish_reason


# --- a warmed prefix is token-identical to the question's ------------------------------


def shown(count: int) -> tuple[Frame, ...]:
    made = []
    for number in range(count):
        seen = Frame(
            FrameInput(NO_SOURCE),
            content_id=f"token-{number}",
            time_s=1.7 * number,
            timeline=FrameTimeline(0),
        )
        seen.number = number
        seen.finish_decode(picture(number, 64, 48), 0.0)
        made.append(seen)
    return tuple(made)


PAST = (
    Exchange(0, "What do you see?", "a red circle", 1, text="What do you see?"),
    Exchange(1, "And now?", "a blue squ [interrupted]", 3, text="And now?"),
)


@pytest.mark.parametrize("layout", ["window", "chronological"])
@pytest.mark.parametrize("history", [(), PAST], ids=["first turn", "history"])
@pytest.mark.parametrize("timestamps", [True, False], ids=["times", "no times"])
@pytest.mark.parametrize("system_prompt", [None, "Be brief."], ids=["no system", "system"])
@pytest.mark.parametrize("dropped", [Dropped(), Dropped(7, 0.0, 9.5)], ids=["", "summary"])
async def test_a_warmed_prefix_is_token_identical_up_to_the_question(
    tiny_vlm: Recorder,
    layout: Layout,
    history: tuple[Exchange, ...],
    timestamps: bool,
    system_prompt: str | None,
    dropped: Dropped,
) -> None:
    context = Context(shown(6), history, dropped, newest=5)
    renderer, limits = tiny_vlm.engine._renderer, tiny_vlm.engine._limits
    tokenizer = tiny_vlm.engine._llm.renderer.get_tokenizer()

    async def tokens(text: str) -> list[int]:
        messages = prompt(
            layout, context, system_prompt=system_prompt, timestamps=timestamps, text=text
        )
        asked = EngineRequest("r", "s", messages, prefill_only=not text)
        return list((await renderer.prompt(asked, limits))["prompt_token_ids"])

    warm = await tokens("")
    for question in ("What came first?", "0", "list them"):
        asked = await tokens(question)
        assert asked[: len(warm)] == warm
        rest = tokenizer.decode(asked[len(warm) :])
        assert rest.startswith(question.lower()), "nothing but the question is left to prefill"


# --- every frame is prefilled once ----------------------------------------------------


async def test_each_frame_is_prefilled_once_over_ten_turns(large_frames: Recorder) -> None:
    """Design section 4: at most 1.1 times the distinct tokens, where `window` is far above."""
    before = computed_tokens()
    distinct = await converse(large_frames, "chronological", turns=10, new_frames=5)
    computed = computed_tokens() - before
    assert distinct > 50 * 256
    assert distinct * 0.95 < computed <= 1.1 * distinct, f"{computed} computed of {distinct}"


async def test_the_window_layout_computes_them_again(large_frames: Recorder) -> None:
    before = computed_tokens()
    distinct = await converse(large_frames, "window", turns=4, new_frames=5)
    assert computed_tokens() - before > 1.8 * distinct


async def test_no_warm_up_is_ever_scheduled_ahead_of_a_waiting_question(
    tiny_vlm: Recorder,
) -> None:
    """Four sessions stream while a fifth asks."""
    tiny_vlm.records.clear()
    async with Neighbours(tiny_vlm, streaming=4, interval_s=0.1) as neighbours:
        for number in range(12):
            await neighbours.ask(f"What do you see? {number}")
    assert len(tiny_vlm.questions) == 12
    assert len(tiny_vlm.warmups) > 12
    assert scheduled_ahead(tiny_vlm) == []


# --- bad input, and the worst -----------------------------------------------------------


def settings_error(**fields: Any) -> EngineError:
    with pytest.raises(EngineError) as error:
        create(vllm_settings(**fields))
    return error.value


async def test_settings_that_cannot_work_are_refused_at_once() -> None:
    assert settings_error(model=None).code == "model_required"
    error = settings_error(engine_options={"no_such_thing": 1})
    assert error.code == "invalid_engine_options"
    assert "no_such_thing" in error.message


@pytest.mark.parametrize(
    ("fields", "code", "advice"),
    [
        ({"model": "./no/such/folder"}, "model_not_found", "there is no such folder"),
        ({"model": "nobody/no-such-model"}, "model_not_found", "nor one that could be had"),
        ({"max_model_len": 1_000_000}, "engine_start_failed", "max_model_len"),
        ({"dtype": "float12"}, "engine_start_failed", "dtype"),
        ({"kv_cache_gib": 0.0002}, "engine_out_of_memory", "--kv-cache-gib"),
    ],
)
async def test_a_model_that_cannot_be_loaded_says_what_to_do(
    fields: dict[str, Any], code: str, advice: str
) -> None:
    engine = create(vllm_settings(**fields))
    with pytest.raises(EngineError) as error:
        await engine.start()
    assert error.value.code == code
    assert advice in error.value.message
    health = await engine.health()
    assert (health.status, health.detail) == ("failed", error.value.message)
    with pytest.raises(EngineError) as refused:
        await outputs(Recorder(engine), request(image(1), "?"))
    assert refused.value.code == "engine_failed"
    await engine.close()


async def test_a_model_without_eyes_is_refused(tmp_path: Any) -> None:
    from transformers import LlamaConfig

    from tools.tiny_vlm.tokens import tokenizer

    sizes = {"hidden_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
    LlamaConfig(**sizes, architectures=["LlamaForCausalLM"]).save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    engine = create(vllm_settings(model=str(tmp_path), max_model_len=512))
    with pytest.raises(EngineError) as error:
        await engine.start()
    assert error.value.code == "text_only_model"
    assert "vision-language model" in error.value.message


async def test_when_the_engine_process_dies_the_session_lives_on(large_frames: Recorder) -> None:
    config = SessionConfig(
        modalities=["text"],
        enable_frame_filter=False,
        sampling_params_list=[{"max_tokens": 4000, "ignore_eos": True}],
    )
    async with Harness(large_frames, config) as h:
        h.session.frame(frame(jpeg(1)))
        h.session.ask("Tell me everything.")
        await h.client.until("response.text.delta")
        (core,) = large_frames.engine._llm.engine_core.resources.engine_manager.processes
        core.kill()
        error = await h.client.until("error")
        assert error.code == "engine_died"
        assert error.request_id == h.client.of("response.start")[0].request_id
        health = await large_frames.health()
        assert health.status == "loading"
        assert "restart" in health.detail
        h.session.ask("Are you there?")
        await h.client.until("error", 2)
        assert h.client.of("error")[1].code == "engine_loading"
        await until_ready(large_frames)
        h.session.update({"sampling_params_list": [{"max_tokens": 4, "ignore_eos": True}]})
        h.session.ask("And now?")
        await h.client.until("response.done")
        assert len(h.client.of("error")) == 2
