"""How many words does each recogniser get wrong, and how long does that take?

    python -m benchmarks.speech_recognition [moonshine] [whisper]

The recordings are heard as the product hears them: as turns, from the voice activity
detector. Those that are not there are left out: `../shared/media`; the packages
moonshine-cpp (beckett) and moonshine-voice==0.1.5 (two_cities; `pip install --no-deps`);
Debian's pocketsphinx-testdata (the others). Where a reference comes from is said beside it.
Times are CPU seconds of one thread, so that a shared machine matters less.
"""

import asyncio
import re
import statistics
import sys
import time
import wave
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from scipy.signal import resample_poly

from core.priority import PriorityThread
from core.speech.activity import ActivityDetector, SpeechEnded, SpeechPaused, SpeechResumed
from core.speech.pcm import INPUT_RATE_HZ
from core.speech.recognition import (
    BYTES_PER_S,
    RECOGNISERS,
    Recogniser,
    Recognition,
    SpeechOnly,
)
from core.speech.vad_model import SileroVoice, SileroWeights

SHARED_MEDIA = Path(__file__).resolve().parents[2] / "shared" / "media"
SPHINX = Path("/usr/share/pocketsphinx/test/data")
BLOCK_S = 0.02  # of a microphone
CLOSING_SILENCE_S = 1.0  # after each recording, so that its last turn ends
QUESTION_RUNS = 5
IDLE_S = 30


@dataclass(frozen=True)
class Recording:
    """Speech, and what is said in it."""

    name: str
    path: Path
    reference: str


def package_folder(name: str) -> Path:
    """Where an installed package's files are, without importing it."""
    spec = find_spec(name)
    found = spec and spec.submodule_search_locations
    return Path(next(iter(found))) if found else Path("not-installed")


# Both recognisers and the text of Asterisk's prompts (demo-instruct, from memory) agree, but
# for numbers and abbreviations, which `words` makes equal.
INSTRUCTIONS = """
If you would like to learn more technical information about Asterisk, dial 2 now. If you would
like to test out the voice over IP capabilities of Asterisk, you can dial 500 to attempt an
inter-Asterisk exchange or IAX connection to a demonstration server at Digium. In order for this
test to work, you will need to be connected to the internet and have at least a 28.8 kilobit
modem. To execute an echo test, dial 600. This test is most useful when you have connected to
this Asterisk server from a remote location. The sample configuration also has a single user with
extension 1234 and password 4242. That user is configured to ring the console when their
extension is dialed. If you dial 1234, you can try to ring the console. If the console is busy or
unavailable, you will be given the option to leave voicemail. To check voicemail for the user,
dial extension 8500 to enter the voicemail system. You can press the pound key to disconnect from
the PBX.
"""
TWO_CITIES = """
It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of
foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season of
light, it was the season of darkness, it was the spring of hope, it was the winter of despair, we
had everything before us, we had nothing before us, we were all going direct to heaven, we were
all going direct the other way - in short, the period was so far like the present period, that
some of its noisiest authorities insisted on its being received, for good or for evil, in the
superlative degree of comparison only.
"""


def recordings() -> Iterator[Recording]:
    """Those that are on this machine."""
    beckett = "Ever tried. Ever failed. No matter. Try again. Fail again. Fail better."
    known = [
        # Short enough that there is no doubt.
        ("weather_question", SHARED_MEDIA, "What is the weather in Paris?"),
        ("hello_world", SHARED_MEDIA, "Hello world"),
        ("instructions", SHARED_MEDIA, INSTRUCTIONS),
        # The books' text: Worstward Ho, A Tale of Two Cities.
        ("beckett", package_folder("moonshine_cpp") / "test-data", beckett),
        ("two_cities", package_folder("moonshine_voice") / "assets", TWO_CITIES),
    ]
    for name, folder, reference in known:
        yield Recording(name, folder / f"{name}.wav", reference)
    # The package's own transcripts.
    for file in (SPHINX / "librivox/transcription", SPHINX / "cards/cards.transcription"):
        for line in file.read_text().splitlines() if file.is_file() else ():
            found = re.fullmatch(r"(?:<s>)?(.*?)(?:</s>)?\s*\((.*)\)", line.strip())
            if found:
                short = found[2].replace("sense_and_sensibility_01_austen_64kb-", "austen ")
                name = short if short.startswith("austen") else f"cards {short}"
                yield Recording(name, file.parent / f"{found[2]}.wav", found[1])


def read_wav(path: Path) -> bytes:
    """A mono WAV as int16 at 16 kHz."""
    with wave.open(str(path)) as file:
        rate_hz = file.getframerate()
        samples = np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32)
    divisor = np.gcd(rate_hz, INPUT_RATE_HZ)
    resampled = resample_poly(samples, INPUT_RATE_HZ // divisor, rate_hz // divisor)
    clipped = np.clip(np.round(resampled), -32768, 32767)
    return bytes(clipped.astype("<i2").tobytes())


DIGITS = "zero one two three four five six seven eight nine".split()  # noqa: SIM905
SAME = {
    "mister": "mr",
    "kb": "kilobit",
    "kbit": "kilobit",
    "voiceover": "voice over",
    "ten": "1 0",
} | {word: str(digit) for digit, word in enumerate(DIGITS)}


def words(text: str) -> list[str]:
    """What is compared: no case, no punctuation, digits one by one, no contractions."""
    text = text.lower().replace("'d ", " would ").replace("'ll ", " will ")
    text = re.sub(r"(\d)", r" \1 ", text)
    plain = re.sub(r"[^a-z0-9]+", " ", text.replace("'", ""))
    return " ".join(SAME.get(word, word) for word in plain.split()).split()


def errors(reference: list[str], heard: list[str]) -> int:
    """Words wrong, missing or too many (Levenshtein)."""
    row = list(range(len(heard) + 1))
    for deleted, expected in enumerate(reference, 1):
        previous, row[0] = row[0], deleted
        for place, got in enumerate(heard, 1):
            changed = previous + (expected != got)
            previous, row[place] = row[place], min(changed, row[place] + 1, row[place - 1] + 1)
    return row[-1]


def turns(pcm16: bytes, voice: SileroVoice) -> list[SpeechEnded]:
    """The turns in a recording."""
    events = ActivityDetector(voice).feed(pcm16 + bytes(round(CLOSING_SILENCE_S * BYTES_PER_S)))
    return [event for event in events if isinstance(event, SpeechEnded)]


async def wait_for_text(
    recogniser: Recogniser, pcm16: bytes, make_voice: Callable[[], SileroVoice]
) -> float:
    """Seconds from the end of speech to the final text, of a recording played in real time."""
    thread = PriorityThread("recognition")
    recognition = Recognition(recogniser, thread)
    detector = ActivityDetector(make_voice())
    pcm16 += bytes(round(CLOSING_SILENCE_S * BYTES_PER_S))
    block = round(BLOCK_S * BYTES_PER_S)
    began_s = time.perf_counter()
    try:
        for start in range(0, len(pcm16), block):
            due_s = began_s + (start + block) / BYTES_PER_S
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            for event in detector.feed(pcm16[start : start + block]):
                if isinstance(event, SpeechPaused):
                    recognition.expect(event.audio)
                elif isinstance(event, SpeechResumed):
                    recognition.resume()
                elif isinstance(event, SpeechEnded):
                    await recognition.finish(event.audio)
                    return time.perf_counter() - began_s - event.end_s
            if detector.speaking:
                recognition.hear(detector.audio)
        return float("nan")
    finally:
        await recognition.close()
        thread.close()


def idle_cost(make_voice: Callable[[], SileroVoice]) -> float:
    """Cores that a session costs in which nobody speaks."""
    rng = np.random.default_rng(0)
    room = rng.normal(0.0, 100.0, IDLE_S * INPUT_RATE_HZ).astype("<i2").tobytes()
    detector = ActivityDetector(make_voice())
    block = round(BLOCK_S * BYTES_PER_S)
    before_s = time.process_time()
    for start in range(0, len(room), block):
        detector.feed(room[start : start + block])
    return (time.process_time() - before_s) / IDLE_S


def main() -> None:
    """Print the tables."""
    weights = SileroWeights()

    def make_voice() -> SileroVoice:
        return SileroVoice(weights)

    names = sys.argv[1:] or list(RECOGNISERS)
    recognisers = [SpeechOnly(RECOGNISERS[name](), make_voice) for name in names]
    found = [recording for recording in recordings() if recording.path.is_file()]
    heads = "".join(f"{recogniser.name:>26}" for recogniser in recognisers)
    columns = "".join(f"{'errors':>8}{'WER %':>8}{'CPU/s':>10}" for _ in recognisers)
    print(f"{'recording':<20}{'s':>6}{'turns':>6}{'words':>6}{heads}")
    print(f"{'':<20}{'':>6}{'':>6}{'':>6}{columns}")
    totals = [[0.0, 0.0] for _ in recognisers]
    all_words, all_s = 0, 0.0
    texts = []
    for recording in found:
        pcm16 = read_wav(recording.path)
        reference = words(recording.reference)
        spoken = turns(pcm16, make_voice())
        length_s = len(pcm16) / BYTES_PER_S
        all_words, all_s = all_words + len(reference), all_s + length_s
        line = f"{recording.name:<20}{length_s:>6.1f}{len(spoken):>6}{len(reference):>6}"
        for recogniser, total in zip(recognisers, totals, strict=True):
            before_s = time.process_time()
            text = " ".join(recogniser.transcribe(turn.audio, "en") for turn in spoken)
            spent_s = time.process_time() - before_s
            wrong = errors(reference, words(text))
            total[0] += wrong
            total[1] += spent_s
            line += f"{wrong:>8}{100 * wrong / len(reference):>8.1f}{spent_s / length_s:>10.3f}"
            texts.append((recording.name, recogniser.name, text))
        print(line)
    line = f"{'all':<20}{all_s:>6.1f}{'':>6}{all_words:>6}"
    for all_wrong, all_spent_s in totals:
        wer = 100 * all_wrong / all_words
        line += f"{all_wrong:>8.0f}{wer:>8.1f}{all_spent_s / all_s:>10.3f}"
    print(line)

    question = next(recording for recording in found if recording.reference != INSTRUCTIONS)
    print(f"\nend of speech to final text, {question.name} in real time, s (median, worst):")
    for recogniser in recognisers:
        waits_s = [
            asyncio.run(wait_for_text(recogniser, read_wav(question.path), make_voice))
            for _ in range(QUESTION_RUNS)
        ]
        print(f"  {recogniser.name:<18}{statistics.median(waits_s):6.2f}{max(waits_s):6.2f}")
    print(f"\nlistening of an idle session: {idle_cost(make_voice):.4f} core\n")
    for recording_name, recogniser_name, text in texts:
        print(f"{recording_name}, {recogniser_name}: {text}")


if __name__ == "__main__":
    main()
