"""What a question wants to know."""

from dataclasses import dataclass
from enum import Enum


class Intent(Enum):
    """What a question wants to know."""

    DESCRIBE = "describe"
    IDENTIFY = "identify"
    HOLDING = "holding"
    COUNT = "count"
    READ = "read"
    COLOUR = "colour"
    BRIGHTNESS = "brightness"
    MOTION = "motion"
    CHANGE = "change"
    PRESENT = "present"
    FIRST_SEEN = "first seen"
    LAST_SEEN = "last seen"
    AT_TIME = "at time"
    ORDER = "order"
    BEFORE = "before"
    AFTER = "after"
    HISTORY = "history"
    CAPABILITIES = "capabilities"
    OTHER = "other"


@dataclass(frozen=True)
class Question:
    """A parsed question. `targets` are things named in it; `IT` stands for a pronoun."""

    intent: Intent
    targets: tuple[str, ...] = ()
    seconds: float | None = None
    ago: bool = True  # whether `seconds` count back from now, or from the session's start


IT = "it"
PRONOUNS = frozenset({"it", "that", "this", "them", "they", "he", "she", "him", "her", "one"})
