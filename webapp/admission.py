"""How many clients are served at a time; the next one gets a clear answer."""

from core.errors import SightlineError


class Admission:
    """Slots for one kind of client."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.taken = 0

    def enter(self) -> None:
        """Take a slot. Raises `SightlineError` (`server_full`)."""
        if self.taken >= self.limit:
            raise SightlineError(
                "server_full",
                f"The server is full: {self.limit} of {self.limit} places are taken. "
                "Try again in a moment.",
            )
        self.taken += 1

    def leave(self) -> None:
        """Give the slot back."""
        self.taken -= 1
