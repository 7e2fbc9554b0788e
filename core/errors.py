"""Errors that a client may see: each has a stable code."""


class SightlineError(Exception):
    """An error with a stable `code`, a message for a person, and what it concerns.

    `code` never changes between releases for the same kind of problem; clients may
    branch on it. `message` names the field, the problem and the limit.
    """

    def __init__(
        self,
        code: str,
        message: str,
        *,
        event_type: str | None = None,
        frame_id: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.event_type = event_type  # the offending message's type
        self.frame_id = frame_id


class ProtocolError(SightlineError):
    """A client message that cannot be accepted; the session lives on."""


class MediaError(SightlineError):
    """A frame or a piece of audio that cannot be used; what was buffered stays."""


class EngineError(SightlineError):
    """The engine refused or failed a request; the session lives on."""


class PromptTooLong(EngineError):
    """The prompt has more tokens or images than the model takes; nothing was generated."""

    def __init__(self, message: str) -> None:
        super().__init__("prompt_too_long", message)
