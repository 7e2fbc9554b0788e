"""What went wrong with a model server, in words: what happened and what to do about it."""

import re
from dataclasses import dataclass
from json import JSONDecodeError
from typing import Any

import openai
from pydantic import ValidationError

from core.errors import EngineError, PromptTooLong

QUOTED_CHARS = 300  # of what a server said

TOO_LONG = re.compile(
    r"context.{0,3}(length|size|window)|longer than the maximum model length"
    r"|too (long|many tokens)|reduce the length|at most [1-9]\d* image|too many images",
    re.IGNORECASE,
)
TAKES_NO_IMAGES = re.compile(
    r"not a multimodal model|at most 0 image|only supports text|mmproj"
    r"|(does not|doesn't|not) support.{0,20}(image|vision|multimodal)"
    r"|image.{0,30}(not|only) (be )?(supported|allowed)|no (vision|image) support",
    re.IGNORECASE,
)
TAKES_NO_AUDIO = re.compile(r"at most 0 audio|not support.{0,20}audio", re.IGNORECASE)


@dataclass(frozen=True)
class ServerErrors:
    """Turns what the `openai` package raises about one server into `EngineError`.

    `host` names the server in every message; `secret`, the API key, never appears in one.
    """

    host: str
    timeout_s: float
    secret: str

    def explain(
        self,
        error: Exception,
        model: str | None = None,
        *,
        midway: bool = False,
        limit_s: float | None = None,
    ) -> EngineError:
        """`error` with a stable code.

        `midway`: the answer had begun; `limit_s`: how long was waited, if not `timeout_s`.
        """
        match error:
            case EngineError():
                return error
            case openai.APITimeoutError():
                return self._timeout(midway, limit_s or self.timeout_s)
            case openai.APIConnectionError() if midway:
                return self.broken(self.quote(error.__cause__ or error))
            case openai.APIConnectionError() if _is_garbage(error.__cause__):
                return self.bad_answer(f"it is not HTTP ({self.quote(error.__cause__)})")
            case openai.APIConnectionError():
                return EngineError(
                    "engine_unreachable",
                    f"Cannot reach the model server at {self.host} "
                    f"({self.quote(error.__cause__ or error)}): is it running, and is --base-url "
                    "right?",
                )
            case openai.APIStatusError():
                return self._status(error.status_code, _said(error.body), model)
            case openai.APIError():  # in the middle of the stream
                status = error.code if error.code and error.code.isdigit() else "500"
                return self._status(int(status), _said(error.body) or error.message, model)
            case JSONDecodeError() | UnicodeDecodeError() | ValidationError():
                return self.bad_answer("it is not the JSON that was asked for")
        return EngineError(
            "engine_failed", f"Asking {self.host} failed: {type(error).__name__}: "
            f"{self.quote(error)}"
        )  # fmt: skip

    def broken(self, why: str) -> EngineError:
        """The stream ended before the answer did."""
        return EngineError(
            "engine_failed",
            f"The answer of {self.host} broke off ({why}): ask again; if it happens again, "
            "look at the server's log",
        )

    def bad_answer(self, why: str) -> EngineError:
        """The server's answer is none."""
        return EngineError(
            "engine_bad_answer",
            f"Cannot understand the answer of {self.host}: {why}. Is there an OpenAI-compatible "
            "server, and does --base-url end in its API's path, such as /v1?",
        )

    def quote(self, what: object) -> str:
        """The beginning of what was said, on one line and without the API key."""
        text = " ".join(str(what).split())
        if self.secret:
            text = text.replace(self.secret, "[API key]")
        return text if len(text) <= QUOTED_CHARS else text[:QUOTED_CHARS] + "…"

    def _timeout(self, midway: bool, limit_s: float) -> EngineError:
        did = "stopped in the middle of its answer" if midway else "did not answer"
        hint = ", or allow it more: --engine-options '{\"timeout_s\": …}'"
        return EngineError(
            "engine_timeout",
            f"{self.host} {did} for {limit_s:g} s: it is overloaded or stuck. Look at its log"
            + (hint if limit_s == self.timeout_s else ""),
        )

    def _status(self, status: int, said: str, model: str | None) -> EngineError:
        said = self.quote(said)
        quoted = f": {said}" if said else ""
        if status in (401, 403):
            which = "refused the API key" if self.secret else "asks for an API key"
            return EngineError(
                "engine_unauthorized",
                f"{self.host} {which} (HTTP {status}): set SIGHTLINE_API_KEY to one that it takes",
            )
        if status == 404 and model is not None:
            return EngineError(
                "unknown_model",
                f"{self.host} does not serve {model!r}{quoted}. Set --model to one that it does, "
                "or --base-url to the path of its API",
            )
        if status == 404:
            return self.bad_answer("it has no model list (HTTP 404)")
        if status == 413:
            return PromptTooLong(
                f"The prompt has more bytes than {self.host} accepts (HTTP 413): fewer frames, or "
                "a proxy with a larger limit (nginx: client_max_body_size)"
            )
        if status in (400, 422):
            return self._rejected(said, quoted)
        if status in (429, 502, 503):
            return EngineError(
                "engine_overloaded",
                f"{self.host} cannot take a request now (HTTP {status}{quoted}): it is loading, "
                "overloaded or has no server behind it. Ask again in a moment",
            )
        if status == 504:
            return self._timeout(False, self.timeout_s)
        return EngineError(
            "engine_failed",
            f"{self.host} failed (HTTP {status}{quoted}): look at the server's log",
        )

    def _rejected(self, said: str, quoted: str) -> EngineError:
        if TAKES_NO_IMAGES.search(said):
            return EngineError(
                "engine_rejected",
                f"This model does not take images ({said}): serve a vision-language model at "
                f"{self.host}",
            )
        if TAKES_NO_AUDIO.search(said):
            return EngineError(
                "engine_rejected",
                f"This model does not take audio ({said}): serve one that does at {self.host}, or "
                "leave audio out of input_modalities in --engine-options",
            )
        if TOO_LONG.search(said):
            return PromptTooLong(
                f"The prompt is longer than the model at {self.host} takes ({said}): fewer or "
                "smaller frames, a shorter system prompt, or a larger limit there "
                "(vLLM: --max-model-len, --limit-mm-per-prompt)"
            )
        return EngineError("engine_rejected", f"{self.host} refused the request{quoted}")


def _is_garbage(cause: BaseException | None) -> bool:
    """Whether something answered that does not speak HTTP; hanging up is another matter."""
    return type(cause).__name__ == "RemoteProtocolError" and "disconnected" not in str(cause)


def _said(body: Any) -> str:
    """The message in an error's body: OpenAI's form, FastAPI's, or plain text."""
    if isinstance(body, dict):
        inner = body.get("error", body)
        if isinstance(inner, dict):
            return str(inner.get("message") or inner.get("detail") or inner)
        return str(inner)
    text = str(body or "")
    return "" if text.lstrip().startswith("<") else text  # a proxy's page says nothing more
