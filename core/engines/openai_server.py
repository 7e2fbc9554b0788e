"""A model server: whether it is there, and which of its models is asked."""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Literal
from urllib.parse import urlsplit

import openai
from pydantic import BaseModel

from core.engines.base import EngineHealth
from core.engines.openai_errors import ServerErrors
from core.errors import EngineError

log = logging.getLogger(__name__)

CONNECT_S = 5.0  # until a connection stands
PROBE_S = 5.0  # until the server says how it is
HEALTH_AGE_S = 2.0  # for so long what it said is believed
WATCH_S = (1.0, 2.0, 4.0, 8.0, 10.0)  # between two looks at a server that is not there
NO_KEY = "EMPTY"  # what a server without a key is sent


class ModelCard(BaseModel):
    """One entry of a server's model list."""

    id: str
    owned_by: str | None = None
    max_model_len: int | None = None  # vLLM: tokens of prompt and answer

    @property
    def is_vllm(self) -> bool:
        """Whether vLLM serves it."""
        return self.owned_by == "vllm"


class _ModelList(BaseModel):
    data: list[ModelCard]


class ModelServer:
    """Knows how the server is. It may come and go; while it is away it is looked for.

    `model`: the name wanted; None takes the server's first. `card` is the entry of the
    model in use, once the server was there.
    """

    def __init__(
        self,
        base_url: str,
        *,
        model: str | None,
        api_key: str,
        timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._base_url = base_url.rstrip("/")
        address = urlsplit(base_url)
        self.host = address.netloc.rpartition("@")[2]  # never the user and password
        self.wanted = model
        self.errors = ServerErrors(self.host, timeout_s, api_key)
        self.client = openai.AsyncOpenAI(
            base_url=self._base_url,
            api_key=api_key or NO_KEY,
            max_retries=0,  # only the engine knows whether something was sent already
            timeout=openai.Timeout(timeout_s, connect=CONNECT_S),
        )
        self.card: ModelCard | None = None
        self._clock = clock
        self._health = EngineHealth("loading", f"Connecting to {self.host}")
        self._problem: EngineError | None = None  # why it is not ready
        self._checked_s = float("-inf")
        self._doubted = True  # `card` may be out of date
        self._has_health = True  # the server has /health, as far as we know
        self._probing: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    async def find(self) -> ModelCard:
        """The model to ask. Raises `EngineError` if it is not there, and goes on looking."""
        await self._check()
        if self._problem is not None:
            raise EngineError(self._problem.code, self._problem.message)
        assert self.card is not None
        return self.card

    async def health(self) -> EngineHealth:
        """How the server is, by what it said at most 2 s ago."""
        if self._clock() - self._checked_s > HEALTH_AGE_S:
            await self._check()
        return self._health

    def seen(self) -> None:
        """It has just answered something."""
        if self._problem is None and self.card is not None:
            self._checked_s = self._clock()

    def doubt(self) -> None:
        """It has just failed: the next who asks how it is has all looked at again."""
        self._checked_s = float("-inf")
        self._doubted = True

    async def close(self) -> None:
        """Stop looking; end all connections."""
        tasks = [task for task in (self._watching, self._probing) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self.client.close()

    async def _check(self) -> None:
        """Ask the server; all who ask at the same time share one request."""
        if self._probing is None or self._probing.done():
            self._probing = asyncio.create_task(self._probe())
        await asyncio.shield(self._probing)

    async def _probe(self) -> None:
        """Look whether server and model are there, and keep the result. Never raises."""
        try:
            if self.card is None or not await self._is_healthy(self.card):
                self.card = self._choose(await self._models())
                self._doubted = False
        except Exception as error:
            self._not_ready(self.errors.explain(error, limit_s=PROBE_S))
            return
        self._checked_s = self._clock()
        if self._health.status != "ready":
            log.info("%s serves %s", self.host, self.card.id)
        self._health, self._problem = EngineHealth("ready"), None

    async def _is_healthy(self, card: ModelCard) -> bool:
        """Ask vLLM's /health, beside its API; False where only the model list can tell."""
        if self._doubted or not card.is_vllm or not self._has_health:
            return False
        address = f"{self._base_url.removesuffix('/v1')}/health"
        try:
            await self.client.get(address, cast_to=str, options={"timeout": PROBE_S})
        except openai.NotFoundError:
            self._has_health = False
            return False
        return True

    async def _models(self) -> list[ModelCard]:
        text = await self.client.get("/models", cast_to=str, options={"timeout": PROBE_S})
        return _ModelList.model_validate_json(text).data

    def _choose(self, cards: list[ModelCard]) -> ModelCard:
        for card in cards:
            if self.wanted in (None, card.id):
                return card
        there = ", ".join(card.id for card in cards[:10]) or "nothing"
        wanted = f"does not serve {self.wanted!r}" if self.wanted else "serves no model"
        raise EngineError(
            "unknown_model", f"{self.host} {wanted}; it has: {there}. Set --model to one of those"
        )

    def _not_ready(self, problem: EngineError) -> None:
        self._checked_s = self._clock()
        status: Literal["loading", "failed"] = (
            "loading" if problem.code == "engine_overloaded" else "failed"
        )
        if self._health != (now := EngineHealth(status, problem.message)):
            log.warning("%s: %s", problem.code, problem.message)
        self._health, self._problem, self._doubted = now, problem, True
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        """Until the server is back, look again and again."""
        attempt = 0
        while self._problem is not None:
            await asyncio.sleep(WATCH_S[min(attempt, len(WATCH_S) - 1)])
            attempt += 1
            await self._check()
