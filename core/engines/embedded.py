"""The embedded engine: small vision models on the CPU, answers composed from measurements."""

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial

from core.engines.base import (
    Engine,
    EngineHealth,
    EngineInfo,
    EngineOutput,
    EngineRequest,
    EngineUsage,
    ImagePart,
    TextPart,
)
from core.errors import EngineError
from core.perception.answers import View, compose, remember_subject
from core.perception.attention import frames_to_note, frames_to_read
from core.perception.intents import Intent, Question
from core.perception.look import Perceiver
from core.perception.memory import Memory
from core.perception.note import Note
from core.perception.questions import parse
from core.perception.scenes import difference, still_around
from core.perception.subjects import is_printed
from core.priority import PriorityThread
from core.weights import ModelError

log = logging.getLogger(__name__)

READ_AHEAD_GAP_S = 6.0  # between two frames that are read unasked in one session
READ_PRINT_GAP_S = 1.0  # where the picture looks like print
QUESTION_PRIORITY = 0
LOOK_BACK_NOTICE = 5  # unseen frames from which on it is said that this takes a while

TIME_MARK = re.compile(r"<\d+(\.\d+)? s>")


@dataclass(frozen=True)
class _Reading:
    """Text, and the frames that show it: the one that was read and the still ones around it."""

    text: tuple[str, ...]
    content_ids: tuple[str, ...]


@dataclass
class _SessionState:
    """What the engine keeps of one session."""

    memory: Memory = field(default_factory=Memory)
    looking: dict[str, asyncio.Future[Note]] = field(default_factory=dict)  # by content id
    reading: dict[str, asyncio.Future[_Reading]] = field(default_factory=dict)
    read_ahead_s: float = float("-inf")  # by the engine's clock
    forgotten: bool = False


class EmbeddedEngine(Engine):
    """Answers about frames with basic vision; remembers each session until it is forgotten.

    Frames are perceived one at a time on one thread for all sessions, a question's before
    any warm-up's; text is read on a second one. Pixels are let go as soon as they are noted.
    """

    def __init__(
        self,
        perceiver: Perceiver | None = None,
        *,
        reads_ahead: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._perceiver = perceiver or Perceiver()
        self._reads_ahead = reads_ahead
        self._clock = clock
        self._sessions: dict[str, _SessionState] = {}
        self._active: dict[str, asyncio.Event] = {}  # request id: stop
        self._looker = PriorityThread("perceive")
        self._reader = PriorityThread("read")
        self._health = EngineHealth("loading", "Not started")
        self.background: set[asyncio.Task[None]] = set()  # frames read unasked, under way

    @property
    def info(self) -> EngineInfo:
        """What it is."""
        return EngineInfo(
            name="embedded",
            model="small vision models",
            description=(
                "Basic vision on the CPU: names things, counts people, reads text, tells "
                "colours, light and motion, and remembers when. Not a language model."
            ),
            input_modalities=frozenset({"text", "image"}),
            output_modalities=frozenset({"text"}),
            prefix_caching=True,
            counts="frames",
            remembers=True,
            stages=("vision",),
        )

    async def start(self) -> None:
        """Load the models. Parts that cannot be loaded are off; health says which."""
        self._health = EngineHealth("loading", "Loading the models")
        try:
            await asyncio.to_thread(self._perceiver.load, self._loading)
        except Exception as error:
            self._health = EngineHealth("failed", f"Cannot load: {error}")
            raise EngineError("engine_failed", self._health.detail) from error
        problems = self._perceiver.problems
        self._health = EngineHealth("ready", " ".join(f"Off: {p}." for p in problems))

    def _loading(self, part: str) -> None:
        self._health = EngineHealth("loading", f"Loading the model for {part}")

    async def health(self) -> EngineHealth:
        """Whether it can answer, and which parts are off."""
        return self._health

    async def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        """Perceive the frames of the prompt, then answer its question, if there is one."""
        if self._health.status != "ready":
            raise EngineError(f"engine_{self._health.status}", self._health.detail)
        stop = self._active[request.request_id] = asyncio.Event()
        request.submitted.set()
        session = self._sessions.setdefault(request.session_id, _SessionState())
        frames = [
            part for message in request.messages for part in message.parts
            if isinstance(part, ImagePart)
        ]  # fmt: skip
        frames.sort(key=lambda frame: frame.time_s)
        cached = sum(session.memory.get(frame.content_id) is not None for frame in frames)
        try:
            if request.prefill_only:
                await self._see_ahead(session, frames, request.priority, stop)
            else:
                async with aclosing(self._answer(session, request, frames, stop)) as answer:
                    async for sentence in answer:
                        if stop.is_set():
                            break
                        yield EngineOutput(text_delta=sentence)
            yield EngineOutput(
                usage=EngineUsage(prompt_tokens=len(frames), cached_tokens=cached),
                finish_reason="abort" if stop.is_set() else "stop",
            )
        finally:
            self._active.pop(request.request_id, None)

    async def abort(self, request_id: str) -> None:
        """Stop between two frames or sentences."""
        stop = self._active.get(request_id)
        if stop is not None:
            stop.set()

    async def forget(self, session_id: str) -> None:
        """Drop the notes of a session."""
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.forgotten = True  # work that has begun leaves nothing behind

    async def close(self) -> None:
        """Stop everything."""
        for stop in self._active.values():
            stop.set()
        for session_id in list(self._sessions):
            await self.forget(session_id)
        self._looker.close()
        self._reader.close()

    # --- perceiving ------------------------------------------------------------------

    async def _see_ahead(
        self,
        session: _SessionState,
        frames: Sequence[ImagePart],
        priority: int,
        stop: asyncio.Event,
    ) -> None:
        """Take notes of all new frames, newest first, then read the newest if it is new."""
        for frame in reversed(frames):
            if stop.is_set():
                return
            await self._note(session, frame, priority)
        if frames and not stop.is_set():
            self._read_ahead(session, frames[-1], priority)

    async def _note(self, session: _SessionState, frame: ImagePart, priority: int) -> Note:
        """The note of a frame: there already, on its way, or taken now."""
        note = session.memory.get(frame.content_id)
        if note is not None:
            return note
        running = session.looking.get(frame.content_id)
        if running is not None:
            return await asyncio.shield(running)

        def begun(future: asyncio.Future[Note]) -> None:
            session.looking[frame.content_id] = future
            future.add_done_callback(partial(_keep_note, session, frame.content_id))

        work = partial(_look, self._perceiver, session.memory, frame)
        return await self._looker.run(priority, work, begun)

    async def _text(
        self, session: _SessionState, frame: ImagePart, priority: int, *, careful: bool
    ) -> None:
        """Have the frame's text noted: it is being read, or is read now. Raises `ModelError`."""
        running = session.reading.get(frame.content_id)
        if running is not None and (await asyncio.shield(running)).text:
            return

        def begun(future: asyncio.Future[_Reading]) -> None:
            session.reading[frame.content_id] = future
            future.add_done_callback(partial(_keep_text, session, frame.content_id))

        work = partial(_read, self._perceiver, session.memory, frame, careful)
        await self._reader.run(priority, work, begun)

    def _read_ahead(self, session: _SessionState, frame: ImagePart, priority: int) -> None:
        """Read a frame unasked, in the background, now and then."""
        note = session.memory.get(frame.content_id)
        if (
            not self._reads_ahead
            or "text" not in self._perceiver.parts
            or note is None
            or note.text is not None
            or session.reading
            or self._clock() - session.read_ahead_s
            < (READ_PRINT_GAP_S if is_printed(note) else READ_AHEAD_GAP_S)
        ):
            return
        session.read_ahead_s = self._clock()
        task = asyncio.create_task(self._read_quietly(session, frame, priority))
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    async def _read_quietly(self, session: _SessionState, frame: ImagePart, priority: int) -> None:
        try:
            await self._text(session, frame, priority, careful=False)
        except Exception:
            log.exception("reading ahead failed")

    # --- answering -------------------------------------------------------------------

    async def _answer(
        self,
        session: _SessionState,
        request: EngineRequest,
        frames: Sequence[ImagePart],
        stop: asyncio.Event,
    ) -> AsyncGenerator[str, None]:
        """The deltas of an answer."""
        question = parse(question_text(request))
        memory = session.memory
        newest = frames[-1] if frames else None
        if newest is not None and question.intent is not Intent.CAPABILITIES:
            await self._note(session, newest, QUESTION_PRIORITY)
        now_s = max(request.time_s, newest.time_s if newest else 0.0)
        said = ""
        unseen = frames_to_note(memory, question, frames)
        if len(unseen) >= LOOK_BACK_NOTICE:
            said = "Let me look back."
            yield said
        for frame in unseen:
            if stop.is_set():
                return
            await self._note(session, frame, QUESTION_PRIORITY)
        to_read: list[ImagePart] = []
        if "text" in self._perceiver.parts:
            to_read = await asyncio.to_thread(frames_to_read, memory, question, frames)
        if to_read:
            opening = "Let me read it." if question.intent is Intent.READ else "Let me look closer."
            yield f" {opening}" if said else opening
            said = opening
            for frame in to_read:
                if stop.is_set():
                    return
                await self._note(session, frame, QUESTION_PRIORITY)
                try:
                    await self._text(session, frame, QUESTION_PRIORITY, careful=True)
                except ModelError as error:
                    raise EngineError("engine_failed", str(error)) from error
        note = memory.at(now_s)
        if note is None and question.intent is not Intent.CAPABILITIES:
            yield f"{' ' if said else ''}I have not seen anything yet."
            return
        view = View(memory, note or Note("", 0.0), now_s, self._perceiver.parts)
        if question.intent is Intent.READ and "text" not in view.parts:
            yield "I cannot read text: that part could not be loaded."
            return
        for sentence in await asyncio.to_thread(_composed, question, view):
            yield f" {sentence}" if said else sentence
            said = sentence
        remember_subject(question, view)


def question_text(request: EngineRequest) -> str:
    """The last text of the last user message that is not a frame's time mark."""
    for message in reversed(request.messages):
        if message.role == "user":
            texts = [part.text for part in message.parts if isinstance(part, TextPart)]
            asked = [text for text in texts if not TIME_MARK.fullmatch(text)]
            return asked[-1] if asked else ""
    return ""


def _composed(question: Question, view: View) -> list[str]:
    return list(compose(question, view))


def _look(perceiver: Perceiver, memory: Memory, frame: ImagePart) -> Note:
    """On the thread: take the note; text of the frame before is still there if nothing moved."""
    seen = memory.get(frame.content_id)
    if seen is not None:
        return seen
    note = perceiver.look(frame.rgb, frame.content_id, frame.time_s)
    before = memory.at(frame.time_s)
    if before is not None and before.text is not None:
        change = difference(note, before)
        if change is not None and not change.significant:
            note = replace(note, text=before.text)
    return note


def _keep_note(session: _SessionState, content_id: str, future: asyncio.Future[Note]) -> None:
    session.looking.pop(content_id, None)
    if not session.forgotten and not future.cancelled() and future.exception() is None:
        session.memory.add(future.result())


def _read(perceiver: Perceiver, memory: Memory, frame: ImagePart, careful: bool) -> _Reading:
    """On the thread: read the frame, and find the frames that are the same picture."""
    text = perceiver.read(frame.rgb, careful=careful)
    return _Reading(text, (frame.content_id, *still_around(memory, frame.content_id)))


def _keep_text(session: _SessionState, content_id: str, future: asyncio.Future[_Reading]) -> None:
    session.reading.pop(content_id, None)
    if session.forgotten or future.cancelled() or future.exception() is not None:
        return
    for shown in future.result().content_ids:
        session.memory.add_text(shown, future.result().text)
