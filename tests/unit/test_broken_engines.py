"""A session outlives whatever its engine does to it."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from core.engines.base import EngineHealth, EngineInfo, EngineOutput, EngineRequest
from core.limits import SessionLimits
from core.protocol import SessionConfig
from tests.fakes import Harness, ScriptedEngine, frame

pytestmark = pytest.mark.unit

CACHING = EngineInfo("scripted", "script", "", prefix_caching=True)
TEXT_ONLY = SessionConfig(enable_frame_filter=False, modalities=["text"])
LIMITS = SessionLimits(decode_s=0.2, submit_s=0.2, stall_s=0.2, abort_s=0.2)
SOON_S = 2.0


class Refusing(ScriptedEngine):
    """Raises when it is asked at all."""

    def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:  # type: ignore[override]
        self._note("generate", request.request_id)
        raise RuntimeError("no")


class Cancelled(ScriptedEngine):
    """Its own work is cancelled."""

    async def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        self._note("generate", request.request_id)
        request.submitted.set()
        yield EngineOutput(text_delta="One")
        raise asyncio.CancelledError


class HealthHangs(ScriptedEngine):
    async def health(self) -> EngineHealth:
        self._note("health", "")
        await asyncio.Event().wait()
        raise AssertionError


class ForgetHangs(ScriptedEngine):
    async def forget(self, session_id: str) -> None:
        await asyncio.Event().wait()


class ForgetRaises(ScriptedEngine):
    async def forget(self, session_id: str) -> None:
        raise RuntimeError("no memory")


async def ended(h: Harness) -> None:
    """Close the session, by a deadline."""
    async with asyncio.timeout(SOON_S):
        await h.session.close()


def started(engine: ScriptedEngine) -> Harness:
    h = Harness(engine, TEXT_ONLY, limits=LIMITS)
    h.session.start()
    h.session.frame(frame())
    return h


async def gets_an_answer_to_each_question(h: Harness) -> None:
    async with asyncio.timeout(SOON_S):
        for count in (1, 2):
            h.session.ask("?")
            error = await h.client.until("error", count)
            assert error.request_id == h.client.of("response.start")[-1].request_id


async def test_one_that_refuses_every_question() -> None:
    h = started(Refusing())
    await gets_an_answer_to_each_question(h)
    await ended(h)


async def test_one_that_refuses_to_warm_up() -> None:
    h = started(Refusing(info=CACHING))
    await h.engine.until("generate")
    await gets_an_answer_to_each_question(h)
    await ended(h)


async def test_one_whose_own_work_is_cancelled() -> None:
    h = started(Cancelled())
    try:
        await gets_an_answer_to_each_question(h)
    finally:
        await ended(h)


async def test_one_that_does_not_say_how_it_is() -> None:
    h = started(HealthHangs())
    h.session.ask("?")
    await h.engine.until("health")
    h.session.interrupt()
    try:
        async with asyncio.timeout(SOON_S):
            await h.client.until("response.interrupted")
    finally:
        h.session._task.cancel()  # type: ignore[union-attr]


async def test_one_that_does_not_forget() -> None:
    h = started(ForgetHangs())
    try:
        await ended(h)
    finally:
        h.session._task.cancel()  # type: ignore[union-attr]


async def test_one_that_fails_to_forget() -> None:
    h = started(ForgetRaises())
    await ended(h)
    assert h.session._task is not None
    assert h.session._task.exception() is None
