"""What does a spoken clause cost, and how soon is its first sound there?

    python -m benchmarks.speech_synthesis [voice ...]

Each clause is spoken as in an answer: written out, synthesised on one thread, resampled to
24 kHz. The time to the first audio is from the moment the clause is known to the first
chunk; the CPU time is that of the whole process. The best of three runs each.
"""

import asyncio
import sys
import time
from dataclasses import dataclass

from core.priority import PriorityThread
from core.speech.synthesis import Synthesis
from core.speech.voices import VOICES, Voice, load_voice

RUNS = 3
CLAUSES = (
    "Hello!",
    "I can see a woman in an orange space suit,",
    "It is 3.2 seconds since 1,000 people passed by at 12:30.",
    "That looks like a cup of espresso on a saucer, with a small spoon next to it.",
    "I am not sure what it is, but from its shape and from the strings it may be a guitar or "
    "a violin that somebody has left on the table.",
)


@dataclass(frozen=True)
class Cost:
    """Of one clause, in seconds."""

    audio_s: float
    cpu_s: float
    first_s: float


async def cost(voice: Voice, thread: PriorityThread, clause: str) -> Cost:
    """Speak a clause once, heard as fast as it comes."""
    synthesis = Synthesis(voice, thread, unplayed_s=lambda: 0.0)
    cpu_s, start_s = time.process_time(), time.perf_counter()
    synthesis.feed(clause)
    synthesis.finish()
    audio_s, first_s = 0.0, 0.0
    async for chunk in synthesis.chunks():
        first_s = first_s or time.perf_counter() - start_s
        audio_s += chunk.duration_s
    return Cost(audio_s, time.process_time() - cpu_s, first_s)


async def main(names: list[str]) -> None:
    """Print the table."""
    thread = PriorityThread("speech")
    print("| voice | clause | audio s | CPU s | RTF | first audio ms |")
    print("|---|---|---|---|---|---|")
    for name in names:
        start_s = time.perf_counter()
        voice = load_voice(name)
        loaded_s = time.perf_counter() - start_s
        for clause in CLAUSES:
            runs = [await cost(voice, thread, clause) for _ in range(RUNS)]
            cpu_s = min(run.cpu_s for run in runs)
            first_ms = 1000 * min(run.first_s for run in runs)
            audio_s = runs[0].audio_s
            short = clause if len(clause) < 45 else f"{clause[:40]}… ({len(clause)} characters)"
            print(
                f"| {name} | {short} | {audio_s:.2f} | {cpu_s:.3f} "
                f"| {cpu_s / audio_s:.3f} | {first_ms:.0f} |"
            )
        print(f"| {name} | (loading) | | | | {1000 * loaded_s:.0f} |")
    thread.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:] or list(VOICES)))
