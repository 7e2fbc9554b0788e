"""An engine that records what another one is asked and what that cost."""

import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field

from core.engines.base import (
    Engine,
    EngineHealth,
    EngineInfo,
    EngineOutput,
    EngineRequest,
    EngineUsage,
)


@dataclass
class Record:
    """One request: times on time.perf_counter, in s."""

    request: EngineRequest
    asked_s: float
    first_s: float | None = None
    ended_s: float | None = None
    output_s: list[float] = field(default_factory=list)  # of each output
    text: str = ""
    usage: EngineUsage | None = None

    @property
    def ttft_s(self) -> float:
        """From the request to the first output."""
        assert self.first_s is not None
        return self.first_s - self.asked_s

    @property
    def computed(self) -> int:
        """Tokens of its prompt that were not in the cache."""
        assert self.usage is not None
        return self.usage.prompt_tokens - self.usage.cached_tokens


@dataclass
class Recorder(Engine):
    """`engine`, with a record of every request."""

    engine: Engine
    records: list[Record] = field(default_factory=list)

    @property
    def info(self) -> EngineInfo:
        return self.engine.info

    @property
    def questions(self) -> list[Record]:
        return [record for record in self.records if not record.request.prefill_only]

    @property
    def warmups(self) -> list[Record]:
        return [record for record in self.records if record.request.prefill_only]

    async def start(self) -> None:
        await self.engine.start()

    async def generate(self, request: EngineRequest) -> AsyncIterator[EngineOutput]:
        record = Record(request, time.perf_counter())
        self.records.append(record)
        try:
            outputs = self.engine.generate(request)
            async with aclosing(outputs):  # type: ignore[type-var]
                async for output in outputs:
                    record.output_s.append(time.perf_counter())
                    record.first_s = record.first_s or record.output_s[0]
                    record.text += output.text_delta
                    record.usage = output.usage or record.usage
                    yield output
        finally:
            record.ended_s = time.perf_counter()

    async def abort(self, request_id: str) -> None:
        await self.engine.abort(request_id)

    async def forget(self, session_id: str) -> None:
        await self.engine.forget(session_id)

    async def health(self) -> EngineHealth:
        return await self.engine.health()

    async def close(self) -> None:
        await self.engine.close()
