"""When a session answers, and what its model is shown: the part to replace with your own.

Subclass `Pipeline`, override what you want otherwise, and name the class with
`--pipeline package.module:Class`. docs/extending.md has two of them.
"""

from importlib import import_module

from core.context import Context, History
from core.engines.base import Message
from core.errors import SightlineError
from core.frames import Frame
from core.limits import SessionLimits
from core.prompt import Layout, prompt
from core.protocol import SessionConfig


class Pipeline:
    """Qwen-Omni's behaviour: it answers when it is asked, about the frames that were kept.

    Each session makes one of its own and calls it from its own task: no method may wait or
    compute for long. `config` is the session's, as `session.update` has last changed it.
    An exception in `prompt` fails the turn (`internal_error`); elsewhere it is reported to
    the client, and the session goes on.
    """

    def __init__(self, config: SessionConfig) -> None:
        self.config = config

    def make_history(self, limits: SessionLimits) -> History:
        """The session's memory of what was said."""
        return History(
            max_exchanges=limits.history_messages // 2, max_audio_bytes=limits.audio_bytes
        )

    def see(self, frame: Frame) -> None:
        """A frame was kept and is in the buffer. `frame.rgb` is None until it is decoded."""

    def unasked(self, frame_count: int, *, generating: bool) -> str | None:
        """After each frame: the text of a question to answer now, or None to wait.

        `frame_count`: frames kept so far in this session, 1 with the first; `generating`: a
        question waits or is being answered, which a new one would interrupt. An empty text
        shows the frames alone.
        """
        return None

    def prompt(
        self, layout: Layout, context: Context, *, audio: bytes = b"", text: str = ""
    ) -> tuple[Message, ...]:
        """The messages of a request; without `audio` and `text`, those of a warm-up.

        `audio`: PCM16, 16 kHz, mono. What a warm-up has must be how the question's prompt
        begins, token by token: else it is of no use, and costs. Called again with a smaller
        context if the model cannot take it.
        """
        return prompt(
            layout,
            context,
            system_prompt=self.config.system_prompt,
            timestamps=self.config.timestamps,
            audio=audio,
            text=text,
        )

    def remember(
        self,
        history: History,
        question: str,
        answer: str,
        *,
        interrupted: bool,
        after: int,
        audio: bytes,
        text: str,
    ) -> None:
        """A turn has ended with an answer, or was interrupted: keep it in the history.

        `answer`: what the person really got; `after`: the number of the newest frame that
        there was; `audio` and `text`: what of the question stood in the prompt.
        """
        history.commit(
            question, answer, interrupted=interrupted, after=after, audio=audio, text=text
        )


def load_pipeline(path: str | None) -> type[Pipeline]:
    """The class that `--pipeline` names; the default one for None.

    Raises `SightlineError` (`pipeline_import_failed`).
    """
    if path is None:
        return Pipeline
    module_name, _, name = path.partition(":")
    try:
        found = getattr(import_module(module_name), name)
        if not (isinstance(found, type) and issubclass(found, Pipeline)):
            raise TypeError(f"{name} is not a subclass of core.pipeline.Pipeline")
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise SightlineError(
            "pipeline_import_failed", f"--pipeline {path}: cannot be loaded: {error}"
        ) from error
    return found
