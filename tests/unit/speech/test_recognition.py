"""One session's recognition: early, partial and final texts, from a recogniser that waits."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest

from core.priority import PriorityThread
from core.speech.recognition import (
    Recognition,
    RecognitionError,
    RecognitionSettings,
    SpeechOnly,
    voiced_part,
)
from tests.unit.speech.listening import (
    WAIT_S,
    FakeRecogniser,
    FakeVoice,
    quiet,
    silence,
    voice,
    windows,
)

pytestmark = pytest.mark.unit


class Listener(Recognition):
    """A recognition that remembers its partials, and can be waited for."""

    def __init__(
        self,
        thread: PriorityThread,
        fake: FakeRecogniser,
        settings: RecognitionSettings | None = None,
    ) -> None:
        self.fake = fake
        self.partials: list[str] = []
        super().__init__(fake, thread, self.partials.append, settings)

    async def begun(self) -> None:
        """Until the recogniser has begun once more."""
        assert await asyncio.to_thread(self.fake.begun.acquire, timeout=WAIT_S)

    async def settled(self) -> None:
        """Until all that was begun has ended."""
        async with asyncio.timeout(WAIT_S):
            await asyncio.gather(*(job.task for job in self._jobs), return_exceptions=True)
            await asyncio.sleep(0)  # for what is called when it ends

    @property
    def heard_ms(self) -> list[int]:
        """How long the audio was, each time."""
        return [heard_ms for heard_ms, _ in self.fake.heard]


@pytest.fixture
def thread() -> Iterator[PriorityThread]:
    thread = PriorityThread("recognition")
    yield thread
    thread.close()


@pytest.fixture
async def session(thread: PriorityThread) -> AsyncIterator[Listener]:
    listener = Listener(thread, FakeRecogniser())
    yield listener
    listener.fake.gate.set()
    await listener.close()


async def test_a_turns_text(session: Listener) -> None:
    assert await session.finish(silence(2.0)) == "2000 ms"


async def test_what_was_recognised_at_the_pause_is_the_text(session: Listener) -> None:
    session.expect(silence(2.0))
    await session.settled()
    assert session.partials == ["2000 ms"]
    session.fake.gate.clear()  # nothing more will be recognised
    async with asyncio.timeout(WAIT_S):
        assert await session.finish(silence(2.0)) == "2000 ms"
    assert session.heard_ms == [2000]


async def test_it_is_waited_for_if_it_is_not_ready(session: Listener) -> None:
    session.fake.gate.clear()
    session.expect(silence(2.0))
    await session.begun()
    text = asyncio.create_task(session.finish(silence(2.0)))
    await asyncio.sleep(0)
    session.fake.gate.set()
    assert await text == "2000 ms"
    assert session.heard_ms == [2000]
    assert session.partials == [], "the turn had ended by then"


async def test_speech_that_goes_on_makes_it_worthless(session: Listener) -> None:
    session.fake.gate.clear()
    session.expect(silence(2.0))
    await session.begun()
    session.resume()
    session.expect(silence(3.0))
    await session.begun()
    session.fake.gate.set()
    assert await session.finish(silence(3.0)) == "3000 ms"
    assert session.heard_ms == [2000, 3000]


async def test_a_turn_that_was_cut_is_recognised_whole(session: Listener) -> None:
    session.expect(silence(2.0))
    assert await session.finish(silence(5.0)) == "5000 ms"


async def test_partials_come_now_and_then(session: Listener) -> None:
    for tenth in range(1, 31):
        session.hear(silence(tenth / 10))
        await session.settled()
    assert session.partials == ["800 ms", "1600 ms", "2400 ms"]
    assert await session.finish(silence(3.0)) == "3000 ms"


async def test_the_longer_the_turn_the_fewer_partials(session: Listener) -> None:
    for tenth in range(1, 300):
        session.hear(silence(tenth / 10))
        await session.settled()
    assert sum(session.heard_ms) < 4 * 12_000
    assert session.heard_ms[-1] <= 12_000, "and then only at its pauses"
    session.expect(silence(29.9))
    await session.settled()
    assert session.partials[-1] == "29900 ms"


async def test_a_partial_that_has_waited_hears_the_newest(
    session: Listener, thread: PriorityThread
) -> None:
    other = Listener(thread, FakeRecogniser())
    other.fake.gate.clear()
    busy = asyncio.create_task(other.finish(silence(9.0)))
    await other.begun()
    for tenth in range(8, 25):
        session.hear(silence(tenth / 10))
        await asyncio.sleep(0)
    other.fake.gate.set()
    await busy
    await session.settled()
    assert session.partials == ["2400 ms"]


async def test_finals_go_before_partials(thread: PriorityThread) -> None:
    fake = FakeRecogniser()
    first, second, third = (Listener(thread, fake) for _ in range(3))
    fake.gate.clear()
    busy = asyncio.create_task(first.finish(silence(9.0)))
    await first.begun()
    second.hear(silence(1.0))
    await asyncio.sleep(0)
    final = asyncio.create_task(third.finish(silence(2.0)))
    await asyncio.sleep(0)
    fake.gate.set()
    await busy
    assert await final == "2000 ms"
    await second.settled()
    assert first.heard_ms == [9000, 2000, 1000]


async def test_a_running_partial_gives_way_to_the_final(session: Listener) -> None:
    session.fake.gate.clear()
    session.hear(silence(1.0))
    await session.begun()
    final = asyncio.create_task(session.finish(silence(2.0)))
    await session.begun()  # the partial was told to stop, else this would never come
    session.fake.gate.set()
    assert await final == "2000 ms"
    assert session.partials == []


async def test_no_partials_if_they_are_not_wanted(thread: PriorityThread) -> None:
    session = Listener(thread, FakeRecogniser(), RecognitionSettings(partials=False))
    session.hear(silence(3.0))
    assert await session.finish(silence(3.0)) == "3000 ms"
    assert session.heard_ms == [3000]


async def test_a_text_is_told_once(session: Listener) -> None:
    session.fake.answer = lambda pcm16: "Hello"
    for second in range(1, 5):
        session.hear(silence(second))
        await session.settled()
    assert session.partials == ["Hello"]
    await session.finish(silence(5))
    session.hear(silence(1))
    await session.settled()
    assert session.partials == ["Hello", "Hello"], "but once a turn"


async def test_a_cancelled_turn_is_forgotten(session: Listener) -> None:
    session.fake.gate.clear()
    session.expect(silence(2.0))
    await session.begun()
    session.cancel()
    session.fake.gate.set()
    assert await session.finish(silence(1.0)) == "1000 ms"
    assert session.partials == []


async def test_cancelling_the_wait_frees_the_thread(session: Listener) -> None:
    session.fake.gate.clear()
    waiting = asyncio.create_task(session.finish(silence(2.0)))
    await session.begun()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    following = asyncio.create_task(session.finish(silence(1.0)))
    await session.begun()
    session.fake.gate.set()
    assert await following == "1000 ms"


async def test_the_next_turn_may_begin_before_the_text_is_there(session: Listener) -> None:
    session.fake.gate.clear()
    first = asyncio.create_task(session.finish(silence(2.0)))
    await session.begun()
    session.hear(silence(1.0))
    session.expect(silence(1.5))
    session.fake.gate.set()
    assert await first == "2000 ms"
    assert await session.finish(silence(1.5)) == "1500 ms"


async def test_the_language_is_handed_on(thread: PriorityThread) -> None:
    session = Listener(thread, FakeRecogniser(), RecognitionSettings(language="de"))
    await session.finish(silence(1.0))
    assert session.fake.heard == [(1000, "de")]


async def test_a_recogniser_that_fails_fails_the_turn_only(session: Listener) -> None:
    def fail(pcm16: bytes) -> str:
        raise RuntimeError("out of memory")

    works, session.fake.answer = session.fake.answer, fail
    session.hear(silence(1.0))
    await session.settled()
    assert session.partials == []
    session.expect(silence(2.0))
    with pytest.raises(RecognitionError, match="fake failed: out of memory") as caught:
        await session.finish(silence(2.0))
    assert caught.value.code == "recognition_failed"
    session.fake.answer = works
    assert await session.finish(silence(2.0)) == "2000 ms"


async def test_closing_ends_what_runs_and_what_waits(thread: PriorityThread) -> None:
    session = Listener(thread, FakeRecogniser())
    session.fake.gate.clear()
    session.hear(silence(1.0))
    await session.begun()
    session.expect(silence(2.0))
    waiting = asyncio.create_task(session.finish(silence(3.0)))
    await asyncio.sleep(0)
    await session.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    session.fake.gate.set()


class TestSpeechOnly:
    def test_the_recogniser_is_not_asked_where_there_is_no_voice(self) -> None:
        fake = FakeRecogniser()
        recogniser = SpeechOnly(fake, FakeVoice)
        for audio in (b"", quiet(50), windows(0.4, 50), quiet(20) + voice(2) + quiet(20)):
            assert recogniser.transcribe(audio) == ""
        assert fake.heard == []

    def test_it_is_shown_the_voice_and_a_margin(self) -> None:
        margin = quiet(13)[:12_800]  # 400 ms
        spoken = voice(10) + quiet(15) + voice(5)
        part = voiced_part(quiet(50) + spoken + quiet(50), FakeVoice())
        assert part == margin + spoken + margin
        assert voiced_part(voice(10), FakeVoice()) == voice(10)

    def test_all_else_is_the_recognisers(self) -> None:
        fake = FakeRecogniser()
        recogniser = SpeechOnly(fake, FakeVoice)
        assert recogniser.transcribe(voice(10), "de") == "320 ms"
        assert fake.heard == [(320, "de")]
        assert (recogniser.name, recogniser.languages) == (fake.name, fake.languages)
