"""The engine on the released `AsyncOmni` itself, its stages scripted: run by test_omni.py.

Real are `AsyncOmni`, `AsyncOmniEngine` with its queues and its input processor, the resolved
configuration of Qwen2.5-Omni's three stages, the renderer of a tiny thinker, and the request
states that turn tokens and tensors into outputs. What is scripted is the orchestrator: the
stages compute nothing, they say what `Script` holds.
"""

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
import torch
import vllm_omni
from vllm import SamplingParams
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.sampling_params import RequestOutputKind
from vllm.v1.engine import FinishReason
from vllm_omni.engine.async_omni_engine import AsyncOmniEngine
from vllm_omni.engine.messages import (
    AbortRequestMessage,
    AbortResultMessage,
    ErrorMessage,
    OutputMessage,
    ShutdownRequestMessage,
    StageSubmissionMessage,
)
from vllm_omni.engine.stage_init_utils import build_stage0_input_processor
from vllm_omni.engine.stage_runtime import StageRuntimeInfo
from vllm_omni.entrypoints.async_omni import AsyncOmni
from vllm_omni.outputs.output_processor import OmniRequestState

from core.engines.base import (
    AudioPart,
    EngineOutput,
    EngineRequest,
    ImagePart,
    Message,
    TextPart,
)
from core.engines.omni import OmniEngine, create
from core.engines.sampling import stage_sampling
from core.engines.stream import EngineStream
from core.errors import EngineError, PromptTooLong
from core.limits import SessionLimits
from core.settings import Settings
from tools.tiny_omni.make import make

pytestmark = pytest.mark.asyncio(loop_scope="module")

WAIT_S = 10.0
MAX_MODEL_LEN = 1024
MAX_IMAGES = 7
CODE2WAV = 2
RATE_HZ = 24_000


@dataclass
class Script:
    """What the stages say to the next request, and what they were given so far."""

    text: tuple[str, ...] = ("Yes.",)
    audio: tuple[tuple[int, ...], ...] = ((100,),)  # lengths of the tensors of each output, samples
    rate_hz: int | None = RATE_HZ
    cached_tokens: int = 0
    error: ErrorMessage | None = None
    endless: bool = False  # says all that and does not end
    received: list[StageSubmissionMessage] = field(default_factory=list)
    log: list[tuple[str, str]] = field(default_factory=list)  # (what, the engine's request id)
    held: asyncio.Event | None = None  # submissions wait for it

    def has(self, what: str) -> bool:
        """Whether the orchestrator has logged `what`."""
        return what in [entry[0] for entry in self.log]


script = Script()


class ScriptedOrchestrator:
    """In the orchestrator's place and thread: reads the real queue, answers by the script."""

    def __init__(self, engine: "ScriptedStages", queues: dict[str, Any]) -> None:
        self._engine = engine
        self._requests = queues["request_async_queue"]
        self._outputs = queues["output_async_queue"]
        self._rpc = queues["rpc_async_queue"]

    async def run(self) -> None:
        while True:
            message = await self._requests.get()
            match message:
                case ShutdownRequestMessage():
                    return
                case AbortRequestMessage():
                    script.log += [("abort", name) for name in message.request_ids]
                    await self._rpc.put(AbortResultMessage(rpc_id=message.rpc_id, success=True))
                case StageSubmissionMessage():
                    script.log.append(("received", message.request_id))
                    script.received.append(message)
                    await self._answer(message)

    async def _answer(self, message: StageSubmissionMessage) -> None:
        if script.error is not None:
            script.error.request_id = message.request_id
            await self._outputs.put(script.error)
            return
        speaks = message.final_stage_id == CODE2WAV
        for output in spoken_tokens(self._engine, message):
            await self._put(message, 0, output, finished=output.finished and not speaks)
        if speaks:
            for output in spoken_tensors(message):
                await self._put(message, CODE2WAV, output, finished=output.finished)

    async def _put(
        self, message: StageSubmissionMessage, stage: int, output: Any, *, finished: bool
    ) -> None:
        await self._outputs.put(
            OutputMessage(
                request_id=message.request_id,
                stage_id=stage,
                engine_outputs=output,
                finished=finished,
            )
        )


def spoken_tokens(engine: "ScriptedStages", message: StageSubmissionMessage) -> list[Any]:
    """The thinker's outputs, by a real request state with its real detokeniser."""
    tokenizer = engine.input_processor.renderer.get_tokenizer()
    state = OmniRequestState.from_new_request(
        tokenizer=tokenizer,
        request=message.prompt,
        prompt=None,
        parent_req=None,
        request_index=0,
        queue=None,
        log_stats=False,
        stream_interval=1,
    )
    state.num_cached_tokens = script.cached_tokens
    outputs = []
    for index, piece in enumerate(script.text):
        last = index == len(script.text) - 1 and not script.endless
        tokens = tokenizer.encode(piece)
        state.detokenizer.update(tokens, False)
        reason = FinishReason.STOP if last else None
        outputs.append(state.make_request_output(tokens, None, reason, None))
    return [output for output in outputs if output is not None]


def spoken_tensors(message: StageSubmissionMessage) -> list[Any]:
    """Code2wav's outputs, by a real request state; sample n of the speech is worth n."""
    state = OmniRequestState(
        request_id=message.request_id,
        external_req_id=message.request_id,
        parent_req=None,
        request_index=0,
        lora_request=None,
        output_kind=message.sampling_params_list[CODE2WAV].output_kind,
        prompt=None,
        prompt_token_ids=[0],
        prompt_embeds=None,
        logprobs_processor=None,
        detokenizer=None,
        max_tokens_param=None,
        arrival_time=0.0,
        queue=None,
        log_stats=False,
        stream_interval=1,
    )
    outputs, start = [], 0
    for index, lengths in enumerate(script.audio):
        for length in lengths:
            tensor = torch.arange(start, start + length, dtype=torch.float32)
            payload: dict[str, Any] = {"model_outputs": tensor.reshape(1, -1)}
            if script.rate_hz is not None:
                payload["sr"] = torch.tensor(script.rate_hz, dtype=torch.int32)
            state.add_multimodal_tensor(payload, "audio")
            start += length
        last = index == len(script.audio) - 1 and not script.endless
        reason = FinishReason.STOP if last else None
        outputs.append(state.make_request_output([0], None, reason, None))
    return [output for output in outputs if output is not None]


class NoProcesses:
    """In the stage runtime's place: there is nothing to start or to end."""

    def create_membership_controller(self) -> None: ...

    def shutdown(self) -> None: ...


class ScriptedStages(AsyncOmniEngine):
    """The released engine without processes for its stages."""

    def _initialize_stages(self, stage_init_timeout: int) -> None:
        self._runtime = NoProcesses()
        thinker = self.stage_configs[0]
        config = AsyncEngineArgs(
            model=self.model,
            dtype="float32",
            max_model_len=thinker.scheduler_config.max_model_len,
            limit_mm_per_prompt=thinker.model_config.limit_mm_per_prompt,
            enable_prefix_caching=thinker.cache_config.enable_prefix_caching,
            enforce_eager=True,
            block_size=32,
        ).create_engine_config()
        self.stage_vllm_configs = [config, None, None]
        self.input_processor = build_stage0_input_processor(config)
        self.default_sampling_params_list = [
            SamplingParams(**stage.model_config.default_sampling_params)
            for stage in self.stage_configs
        ]
        self.stage_metadata = [
            StageRuntimeInfo(
                final_output=stage.final_output,
                final_output_type=stage.final_output_type,
                stage_type=str(stage.stage_type),
                model_stage=stage.model_stage,
            )
            for stage in self.stage_configs
        ]

    def _create_orchestrator(self, **queues: Any) -> Any:
        return ScriptedOrchestrator(self, queues)

    async def add_request_async(self, *args: Any, **kwargs: Any) -> None:
        if script.held is not None:
            await script.held.wait()
        await super().add_request_async(*args, **kwargs)


class ScriptedOmni(AsyncOmni):
    """The released `AsyncOmni` on scripted stages."""

    def _create_engine(self, **options: Any) -> AsyncOmniEngine:
        return ScriptedStages(**options)


@pytest.fixture(scope="module")
def model() -> Path:
    folder = Path(os.environ["SIGHTLINE_TEST_THINKER"])
    make(folder)
    return folder


def settings(model: Path, **more: Any) -> Settings:
    return Settings(
        engine="omni",
        model=str(model),
        dtype="float32",
        max_model_len=MAX_MODEL_LEN,
        max_images=MAX_IMAGES,
        **more,
    )


@pytest.fixture(scope="module")
def scripted() -> Any:
    patch = pytest.MonkeyPatch()
    patch.setattr(vllm_omni, "AsyncOmni", ScriptedOmni, raising=False)
    yield
    patch.undo()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared(model: Path, scripted: None) -> AsyncIterator[OmniEngine]:
    made = create(settings(model))
    await made.start()
    yield made
    await made.close()


@pytest.fixture
def engine(shared: OmniEngine) -> OmniEngine:
    fresh = Script()
    for name in Script.__dataclass_fields__:
        setattr(script, name, getattr(fresh, name))
    return shared


def omni_of(engine: OmniEngine) -> AsyncOmni:
    omni = engine._omni
    assert omni is not None
    return omni


async def until(condition: Callable[[], object]) -> None:
    """Until it holds; the orchestrator is another thread, so that there is no event for it."""
    async with asyncio.timeout(WAIT_S):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


numbers = iter(range(1_000_000))


def ask(*parts: Any, **options: Any) -> EngineRequest:
    """A request with `parts` as its user message."""
    options.setdefault("modalities", ("text", "audio"))
    return EngineRequest(
        request_id=f"video-{next(numbers)}",
        session_id="session",
        messages=(Message("user", parts or (TextPart("What?"),)),),
        **options,
    )


def image(name: str) -> ImagePart:
    return ImagePart(np.zeros((112, 112, 3), np.uint8), name, 0.0)


def audio(seconds: float = 1.0) -> AudioPart:
    return AudioPart(bytes(int(seconds * 16_000) * 2))


async def outputs(engine: OmniEngine, request: EngineRequest) -> list[EngineOutput]:
    async with asyncio.timeout(WAIT_S):
        return [output async for output in engine.generate(request)]


def texts(given: list[EngineOutput]) -> list[str]:
    return [output.text_delta for output in given if output.text_delta]


def sound(given: list[EngineOutput]) -> list[np.ndarray]:
    return [output.audio for output in given if output.audio is not None]


# What it is.


async def test_info_is_read_from_the_stages(engine):
    info = engine.info
    assert info.stages == ("thinker", "talker", "code2wav")
    assert info.input_modalities == {"text", "image", "audio"}
    assert info.output_modalities == {"text", "audio"}
    assert info.hears
    assert info.speaks
    assert info.output_rate_hz == RATE_HZ
    assert info.context_tokens == MAX_MODEL_LEN
    assert info.images_per_prompt == MAX_IMAGES
    assert info.prefix_caching is False  # as Qwen2.5-Omni's deploy config says
    assert (await engine.health()).status == "ready"


async def test_engine_options_reach_the_stages(model, scripted):
    """Prefix caching of the thinker, beside what the settings say of it."""
    options = {"stage_overrides": {"0": {"enable_prefix_caching": True}}}
    made = create(settings(model, engine_options=options))
    await made.start()
    try:
        assert made.info.prefix_caching is True
        assert made.info.images_per_prompt == MAX_IMAGES
        thinker, talker, _ = omni_of(made).engine.stage_configs
        assert str(thinker.model_config.dtype) == str(talker.model_config.dtype) == "float32"
        assert talker.scheduler_config.max_model_len != MAX_MODEL_LEN
    finally:
        await made.close()


# Sampling parameters: protocol rows 3 to 6.


@pytest.mark.parametrize(
    "overrides",
    [
        [{"temperature": 0.5}],
        [{"temperature": 0.5}, {"top_k": 3}, {"seed": 9}],
        None,
    ],
)
async def test_one_object_per_stage_each_for_deltas(engine, overrides):
    defaults = omni_of(engine).default_sampling_params_list
    before = [repr(params) for params in defaults]
    await outputs(engine, ask(sampling=stage_sampling(overrides, 3)))
    (message,) = script.received
    assert len(message.sampling_params_list) == 3
    for params in message.sampling_params_list:
        assert params.output_kind is RequestOutputKind.DELTA
        assert all(params is not default for default in defaults)
    assert [repr(params) for params in defaults] == before
    assert all(params.output_kind is RequestOutputKind.CUMULATIVE for params in defaults)


async def test_override_starts_from_the_constructor(engine):
    """Row 5; the stages that are not overridden have the deploy config's parameters."""
    await outputs(engine, ask(sampling=stage_sampling([{"temperature": 0.5}], 3)))
    thinker, talker, code2wav = script.received[0].sampling_params_list
    default = omni_of(engine).default_sampling_params_list
    assert thinker.temperature == 0.5
    assert thinker.repetition_penalty == 1.0 != default[0].repetition_penalty
    assert thinker.seed is None is not default[0].seed
    assert (talker.temperature, talker.top_k) == (default[1].temperature, default[1].top_k)
    assert code2wav.repetition_penalty == default[2].repetition_penalty


async def test_later_stages_take_overrides(engine):
    await outputs(engine, ask(sampling=stage_sampling([{}, {"top_k": 3}, {"seed": 9}], 3)))
    thinker, talker, code2wav = script.received[0].sampling_params_list
    assert thinker.seed == 42  # the deploy config's
    assert talker.top_k == 3
    assert code2wav.seed == 9


async def test_answer_is_as_long_as_asked_and_fits(engine):
    await outputs(engine, ask(max_tokens=5))
    await outputs(engine, ask())
    short, default = (message.sampling_params_list[0] for message in script.received)
    assert short.max_tokens == 5
    prompt = len(script.received[1].prompt.prompt_token_ids)
    assert default.max_tokens == MAX_MODEL_LEN - prompt  # the deploy config's 2,048 are too many


# The prompt.


async def test_prompt_is_the_models_own(engine):
    """Images, audio and text in their order, by the checkpoint's chat template."""
    await outputs(engine, ask(image("one"), image("two"), audio(2.0), TextPart("What?")))
    request = script.received[0].prompt
    tokenizer = omni_of(engine).renderer.get_tokenizer()
    image_id, audio_id = tokenizer.convert_tokens_to_ids(["<|IMAGE|>", "<|AUDIO|>"])
    ids = list(request.prompt_token_ids)
    assert ids.count(image_id) == 2 * 16  # 112 × 112 pixels, 28 × 28 a token
    assert ids.count(audio_id) == 2 * 25  # a second is 25 tokens
    assert ids.index(image_id) < ids.index(audio_id)
    assert tokenizer.decode(ids).endswith("What?<|im_end|>\n<|im_start|>assistant\n")
    assert [feature.modality for feature in request.mm_features] == ["image", "image", "audio"]


async def test_images_keep_their_content_ids(engine):
    """For the caches: what `multi_modal_uuids` name."""
    await outputs(engine, ask(image("frame-1"), image("frame-2"), TextPart("What?")))
    await outputs(engine, ask(image("frame-2"), TextPart("Else?")))
    first, second = ([f.identifier for f in m.prompt.mm_features] for m in script.received)
    assert first[1] == second[0]
    assert len({*first, *second}) == 2
    assert "frame-1" in first[0]


async def test_sessions_share_no_cache(engine):
    await outputs(engine, ask(image("one"), TextPart("What?")))
    assert script.received[0].prompt.cache_salt == "session"


@pytest.mark.parametrize(
    ("parts", "flag", "kwargs"),
    [
        ((audio(),), True, {"use_audio_in_video": True}),
        ((audio(),), False, None),
        ((image("one"),), True, None),  # no prefix cache here: nothing to keep the same
    ],
)
async def test_use_audio_in_video(engine, parts, flag, kwargs):
    """Row 23."""
    await outputs(engine, ask(*parts, TextPart("What?"), use_audio_in_video=flag))
    assert script.received[0].original_prompt.get("mm_processor_kwargs") == kwargs


async def test_warm_up_has_the_questions_images(model, scripted):
    """Row 36, where stage 0 has a prefix cache: same keywords, hence the same cache entries."""
    options = {"stage_overrides": {"0": {"enable_prefix_caching": True}}}
    made = create(settings(model, engine_options=options))
    await made.start()
    script.received.clear()
    try:
        common = {"use_audio_in_video": True, "modalities": ("text",)}
        warm = ask(image("one"), prefill_only=True, max_tokens=1, **common)
        given = await outputs(made, warm)
        await outputs(made, ask(image("one"), audio(), TextPart("What?"), **common))
    finally:
        await made.close()
    assert texts(given) == []
    first, question = script.received
    assert first.sampling_params_list[0].max_tokens == 1
    assert first.final_stage_id == 0
    assert (
        first.original_prompt["mm_processor_kwargs"]
        == question.original_prompt["mm_processor_kwargs"]
        == {"use_audio_in_video": True}
    )
    ids = list(first.prompt.prompt_token_ids)
    assert list(question.prompt.prompt_token_ids)[: len(ids)] == ids
    assert first.prompt.mm_features[0].identifier == question.prompt.mm_features[0].identifier


async def test_too_long_a_prompt(engine):
    with pytest.raises(PromptTooLong):
        await outputs(engine, ask(*(TextPart("word " * 200) for _ in range(20))))
    with pytest.raises(PromptTooLong):
        await outputs(engine, ask(*(image(str(n)) for n in range(MAX_IMAGES + 1))))
    assert script.received == []


# What comes out.


@pytest.mark.parametrize("pieces", [("1", "1"), ("ha", "ha", "ha"), ("20", "0", "0")])
@pytest.mark.parametrize("kind", [RequestOutputKind.DELTA, RequestOutputKind.CUMULATIVE])
async def test_repeated_text_is_not_lost(engine, pieces, kind, monkeypatch):
    """Fault F2, with a pipeline that sends deltas and with one that insists on the whole."""
    script.text = pieces
    constraints = [{"output_kind": kind}, {}, {}]
    monkeypatch.setattr(omni_of(engine), "sampling_constraints_list", constraints)
    given = await outputs(engine, ask(modalities=("text",)))
    assert script.received[0].sampling_params_list[0].output_kind is kind
    assert texts(given) == list(pieces)


@pytest.mark.parametrize("kind", [RequestOutputKind.DELTA, RequestOutputKind.CUMULATIVE])
async def test_speech_comes_once_and_whole(engine, kind, monkeypatch):
    """Only the first 1,920 samples are missing; lists of tensors are joined."""
    script.audio = ((4_000,), (1_000, 500), (5_000,))
    constraints = [{}, {}, {"output_kind": kind}]
    monkeypatch.setattr(omni_of(engine), "sampling_constraints_list", constraints)
    given = await outputs(engine, ask())
    chunks = sound(given)
    assert [chunk.size for chunk in chunks] == [4_000 - 1_920, 1_500, 5_000]
    assert all(chunk.dtype == np.float32 and chunk.ndim == 1 for chunk in chunks)
    np.testing.assert_array_equal(np.concatenate(chunks), np.arange(1_920, 10_500))
    assert {output.sample_rate_hz for output in given if output.audio is not None} == {RATE_HZ}


@pytest.mark.parametrize(("first", "kept"), [(3_840, 3_840), (3_841, 1_921), (100, 100)])
async def test_first_emission_is_trimmed_when_it_is_longer(engine, first, kept):
    script.audio = ((first,), (9_000,))
    assert [chunk.size for chunk in sound(await outputs(engine, ask()))] == [kept, 9_000]


async def test_empty_emission_is_not_the_first(engine):
    script.audio = ((0,), (4_000,))
    assert [chunk.size for chunk in sound(await outputs(engine, ask()))] == [2_080]


@pytest.mark.parametrize(("named", "given_hz"), [(44_100, 44_100), (None, RATE_HZ)])
async def test_sample_rate_is_what_the_stage_names(engine, named, given_hz):
    script.audio, script.rate_hz = ((100,),), named
    rates = [o.sample_rate_hz for o in await outputs(engine, ask()) if o.audio is not None]
    assert rates == [given_hz]


async def test_text_before_and_after_speech(engine):
    """Text is whole although speech comes as well (fault F3)."""
    script.text, script.audio = ("one ", "two ", "three"), ((100,), (100,))
    given = await outputs(engine, ask())
    assert texts(given) == ["one ", "two ", "three"]
    assert len(sound(given)) == 2


async def test_text_alone_does_not_run_the_talker(engine):
    script.audio = ((100,),)
    assert sound(await outputs(engine, ask(modalities=("text",)))) == []
    await outputs(engine, ask(modalities=("text", "audio")))
    assert [message.final_stage_id for message in script.received] == [0, CODE2WAV]


async def test_usage_and_reason_come_last(engine):
    script.cached_tokens = 32
    given = await outputs(engine, ask(image("one"), TextPart("What?")))
    usage = given[-1].usage
    assert usage is not None
    assert usage.prompt_tokens == len(script.received[0].prompt.prompt_token_ids)
    assert usage.cached_tokens == 32
    assert given[-1].finish_reason == "stop"
    assert all(output.usage is None for output in given[:-1])


# Submitting and stopping: rows 33, 38 and 39.


async def held(engine: OmniEngine) -> tuple[EngineRequest, EngineStream, "asyncio.Task[Any]"]:
    """A request whose submission is under way."""
    script.held = asyncio.Event()
    request = ask()
    stream = EngineStream(engine, request, SessionLimits())
    step = asyncio.create_task(stream.next())
    await until(lambda: omni_of(engine).request_states)
    return request, stream, step


async def test_submitted_is_set_once_the_engine_has_received_it(engine):
    script.text, script.audio, script.endless = (), (), True  # no output can tell
    request, stream, step = await held(engine)
    assert not request.submitted.is_set()
    script.held.set()
    async with asyncio.timeout(WAIT_S):
        await request.submitted.wait()
    await until(lambda: script.has("received"))
    stream.stop()
    await step
    await stream.close()


async def test_never_aborts_what_has_not_been_received(engine):
    script.endless = True
    _, stream, step = await held(engine)
    stream.stop()
    closing = asyncio.create_task(stream.close())
    await step
    await asyncio.sleep(0.1)  # for an abort that must not come
    assert script.log == []
    assert not closing.done()
    script.held.set()
    async with asyncio.timeout(WAIT_S):
        await closing
    assert [what for what, _ in script.log] == ["received", "abort"]
    assert len({name for _, name in script.log}) == 1
    assert not omni_of(engine).request_states


async def test_closing_the_generator_stops_the_stages(engine):
    script.endless = True
    generator = engine.generate(ask())
    async with asyncio.timeout(WAIT_S):
        assert (await anext(generator)).text_delta == "Yes."
        await generator.aclose()
    await until(lambda: script.has("abort"))
    assert not omni_of(engine).request_states


async def test_abort_of_what_has_ended_is_no_error(engine):
    request = ask()
    await outputs(engine, request)
    await engine.abort(request.request_id)
    await engine.abort("never-was")
    assert [what for what, _ in script.log] == ["received"]


async def test_two_requests_at_once(engine):
    """Each is told of its own submission."""
    one, two = ask(), ask()
    given = await asyncio.gather(outputs(engine, one), outputs(engine, two))
    assert [texts(each) for each in given] == [["Yes."], ["Yes."]]
    assert one.submitted.is_set()
    assert two.submitted.is_set()


async def test_release_with_a_submitted_argument(model, scripted, monkeypatch):
    """It is used, and the engine is left as it is."""

    class Newer(ScriptedOmni):
        async def generate(self, *args: Any, submitted: asyncio.Event, **options: Any) -> Any:
            given.append(submitted)
            async for output in super().generate(*args, **options):
                yield output

    given: list[asyncio.Event] = []
    monkeypatch.setattr(vllm_omni, "AsyncOmni", Newer)
    made = create(settings(model))
    await made.start()
    try:
        request = ask()
        await outputs(made, request)
        assert given == [request.submitted]
        assert "add_request_async" not in vars(omni_of(made).engine)
    finally:
        await made.close()


# What can go wrong.


async def test_failed_request_is_an_error_and_the_engine_lives(engine):
    script.error = ErrorMessage(error="the talker fell over", stage_id=1)
    with pytest.raises(EngineError, match="the talker fell over") as caught:
        await outputs(engine, ask())
    assert caught.value.code == "engine_failed"
    script.error = None
    assert texts(await outputs(engine, ask())) == ["Yes."]


async def test_dead_engine(model, scripted):
    made = create(settings(model))
    await made.start()
    engine = omni_of(made).engine
    engine.request_queue.sync_q.put(ShutdownRequestMessage())
    await asyncio.to_thread(engine.orchestrator_thread.join, WAIT_S)
    assert (await made.health()).status == "failed"
    with pytest.raises(EngineError) as caught:
        await outputs(made, ask())
    assert caught.value.code == "engine_died"
    await made.abort("any")
    await made.close()


async def test_not_loaded_yet(model):
    made = create(settings(model))
    assert (await made.health()).status == "loading"
    with pytest.raises(EngineError) as caught:
        await outputs(made, ask())
    assert caught.value.code == "engine_loading"


def written(change: Callable[[Path], None]) -> Callable[[Path], str]:
    def folder(path: Path) -> str:
        change(path)
        return str(path)

    return folder


@pytest.mark.parametrize(
    ("model_of", "options", "code"),
    [
        (lambda path: str(path / "missing"), {}, "model_not_found"),
        (
            written(lambda path: (path / "config.json").write_text('{"model_type": "gpt2"}')),
            {},
            "model_not_supported",
        ),
        (str, {"stage_configs_path": "old.yaml"}, "engine_start_failed"),
    ],
)
async def test_what_cannot_be_loaded(tmp_path, model_of, options, code):
    """With the released `AsyncOmni` as it is; it gives up before it needs a GPU."""
    made = create(Settings(engine="omni", model=model_of(tmp_path), engine_options=options))
    with pytest.raises(EngineError) as caught:
        await made.start()
    assert caught.value.code == code, caught.value.message
    assert (await made.health()).status == "failed"


async def test_no_thread_is_left(engine):
    """The engines that were closed took their orchestrators with them."""
    alive = [thread for thread in threading.enumerate() if thread.name == "orchestrator"]
    assert len(alive) == 1
