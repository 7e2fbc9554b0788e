"""Text as it is said: numbers, units, times, symbols and abbreviations as English words."""

import re
import unicodedata
from collections.abc import Callable


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


ONES = _words(
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    "fifteen sixteen seventeen eighteen nineteen"
)
TENS = _words("zero ten twenty thirty forty fifty sixty seventy eighty ninety")
SCALES = ("", "thousand", "million", "billion", "trillion")
ORDINALS = {
    "one": "first",
    "two": "second",
    "three": "third",
    "five": "fifth",
    "eight": "eighth",
    "nine": "ninth",
    "twelve": "twelfth",
}
LONGEST_NUMBER = 15  # digits; longer ones are read digit by digit
LONGEST_COUNT = 6  # digits that are read as one number without separators
MONTHS = _words(
    "January February March April May June July August September October November December"
)
FRACTIONS = {2: "half", 3: "third", 4: "quarter", 5: "fifth", 8: "eighth", 10: "tenth"}
SIGNS = {"½": "1/2", "¼": "1/4", "¾": "3/4", "⅓": "1/3", "⅔": "2/3"}
MONEY = {
    "$": ("dollar", "dollars", "cent", "cents"),
    "€": ("euro", "euros", "cent", "cents"),
    "£": ("pound", "pounds", "penny", "pence"),
}
UNITS = {
    "km/h": ("kilometer per hour", "kilometers per hour"),
    "m/s": ("meter per second", "meters per second"),
    "mph": ("mile per hour", "miles per hour"),
    "fps": ("frame per second", "frames per second"),
    "°C": ("degree Celsius", "degrees Celsius"),
    "°F": ("degree Fahrenheit", "degrees Fahrenheit"),
    "°": ("degree", "degrees"),
    "%": ("percent", "percent"),
    "km": ("kilometer", "kilometers"),
    "cm": ("centimeter", "centimeters"),
    "mm": ("millimeter", "millimeters"),
    "µm": ("micrometer", "micrometers"),
    "m": ("meter", "meters"),
    "ft": ("foot", "feet"),
    "lb": ("pound", "pounds"),
    "lbs": ("pound", "pounds"),
    "oz": ("ounce", "ounces"),
    "kg": ("kilogram", "kilograms"),
    "mg": ("milligram", "milligrams"),
    "g": ("gram", "grams"),
    "ml": ("milliliter", "milliliters"),
    "l": ("liter", "liters"),
    "L": ("liter", "liters"),
    "ms": ("millisecond", "milliseconds"),
    "s": ("second", "seconds"),
    "sec": ("second", "seconds"),
    "min": ("minute", "minutes"),
    "h": ("hour", "hours"),
    "hrs": ("hour", "hours"),
    "Hz": ("hertz", "hertz"),
    "kHz": ("kilohertz", "kilohertz"),
    "MHz": ("megahertz", "megahertz"),
    "GHz": ("gigahertz", "gigahertz"),
    "kB": ("kilobyte", "kilobytes"),
    "KB": ("kilobyte", "kilobytes"),
    "MB": ("megabyte", "megabytes"),
    "GB": ("gigabyte", "gigabytes"),
    "TB": ("terabyte", "terabytes"),
    "MiB": ("mebibyte", "mebibytes"),
    "GiB": ("gibibyte", "gibibytes"),
    "px": ("pixel", "pixels"),
    "MP": ("megapixel", "megapixels"),
    "W": ("watt", "watts"),
    "kW": ("kilowatt", "kilowatts"),
    "kWh": ("kilowatt hour", "kilowatt hours"),
    "V": ("volt", "volts"),
    "dB": ("decibel", "decibels"),
    "m²": ("square meter", "square meters"),
}
ABBREVIATIONS = {
    "Dr.": "Doctor",
    "Mr.": "Mister",
    "Mrs.": "Missus",
    "Ms.": "Miz",
    "Prof.": "Professor",
    "St.": "Saint",
    "e.g.": "for example",
    "i.e.": "that is",
    "etc.": "et cetera",
    "vs.": "versus",
    "approx.": "approximately",
    "w/o": "without",
    "w/": "with",
}
SYMBOLS = {
    "&": "and",
    "@": "at",
    "+": "plus",
    "=": "equals",
    "≈": "about",
    "±": "plus or minus",
    "×": "times",
    "÷": "divided by",
    "≤": "at most",
    "≥": "at least",
    "≠": "is not",
    "→": "to",
    "°": "degrees",
    "%": "percent",
    "©": "copyright",
    "§": "section",
    "²": "squared",
    "³": "cubed",
}
CODE = "a piece of code"
DIGITS = r"\d{1,3}(?:,\d{3})+(?!\d)|\d+"
NUMBER = rf"(?:{DIGITS})(?:\.\d+)?"
SIGNED = rf"(?<![\w.])-?(?:{NUMBER})"
UNIT = "|".join(sorted(map(re.escape, UNITS), key=len, reverse=True))

Rule = tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]


def cardinal(number: int) -> str:
    """1234 as "one thousand two hundred thirty-four"."""
    if number < 0:
        return "minus " + cardinal(-number)
    if number < 20:
        return ONES[number]
    if number < 100:
        tens, ones = divmod(number, 10)
        return TENS[tens] + (f"-{ONES[ones]}" if ones else "")
    if number < 1000:
        hundreds, rest = divmod(number, 100)
        return f"{ONES[hundreds]} hundred" + (f" {cardinal(rest)}" if rest else "")
    if len(str(number)) > LONGEST_NUMBER:
        return digits(str(number))
    words: list[str] = []
    scale = 0
    while number:
        number, part = divmod(number, 1000)
        if part:
            words.insert(0, f"{cardinal(part)} {SCALES[scale]}".strip())
        scale += 1
    return " ".join(words)


def ordinal(number: int) -> str:
    """21 as "twenty-first"."""
    words = cardinal(number)
    at = max(words.rfind(" "), words.rfind("-")) + 1
    last = words[at:]
    if last in ORDINALS:
        return words[:at] + ORDINALS[last]
    return words[:at] + (last[:-1] + "ieth" if last.endswith("y") else last + "th")


def digits(text: str) -> str:
    """Each digit by its name."""
    return " ".join(ONES[int(digit)] for digit in text if digit.isdecimal())


def year(number: int) -> str:
    """1987 as "nineteen eighty-seven"."""
    century, rest = divmod(number, 100)
    if number % 1000 < 10:
        return cardinal(number)
    if rest == 0:
        return f"{cardinal(century)} hundred"
    return f"{cardinal(century)} {'oh ' if rest < 10 else ''}{cardinal(rest)}"


def number_words(text: str) -> str:
    """A number as written, with thousands' commas, sign and decimals, in words."""
    sign = "minus " if text.startswith("-") else ""
    whole, _, decimals = text.lstrip("-").partition(".")
    plain = whole.replace(",", "")
    is_code = (len(plain) > 1 and plain[0] == "0") or (
        "," not in whole and len(plain) > LONGEST_COUNT
    )
    words = digits(plain) if is_code else cardinal(int(plain))
    return sign + words + (f" point {digits(decimals)}" if decimals else "")


def spoken(text: str) -> str:
    """A clause as words and punctuation; "" where there is nothing to say."""
    text = unicodedata.normalize("NFC", text).translate(PLAIN)
    for pattern, replacement in RULES:
        text = pattern.sub(replacement, text)
    text = "".join(c if _is_sayable(c) else " " for c in text)
    text = re.sub(r"\s+([,;:.!?…])", r"\1", re.sub(r"\s+", " ", text))
    text = re.sub(r",[,\s]*(?=[,.;:!?])", "", text).strip(" ,;:-—")
    return text if any(c.isalnum() for c in text) else ""


PLAIN = {
    ord("’"): "'",
    ord("‘"): "'",
    ord("–"): "-",
    ord("−"): "-",
    ord("‐"): "-",
    ord("‑"): "-",
    0xA0: " ",
    0x202F: " ",
    0x2009: " ",
    **{ord(sign): f" {written}" for sign, written in SIGNS.items()},
}


def _is_sayable(char: str) -> bool:
    return char.isalnum() or char in "'-—,;:.!?…\"“”()" or unicodedata.category(char)[0] == "M"


def _url(match: re.Match[str]) -> str:
    host = match["host"].removeprefix("www.")
    return host.replace(".", " dot ") + (match["end"] or "")


def _time(match: re.Match[str]) -> str:
    hour, minute, half = int(match["hour"]), int(match["minute"]), match["half"]
    if hour > 24 or minute > 59:
        return f"{cardinal(hour)} {cardinal(minute)}"
    if minute == 0:
        words = cardinal(hour) + ("" if half else " o'clock" if 0 < hour < 13 else " hundred")
    else:
        words = f"{cardinal(hour)} {'oh ' if minute < 10 else ''}{cardinal(minute)}"
    if match["second"]:
        words += f" and {cardinal(int(match['second']))} seconds"
    return words + _half(match)


def _half(match: re.Match[str]) -> str:
    half = match["half"]
    if not half:
        return ""
    after = match.string[match.end() :].lstrip()
    ends = half.endswith(".") and (not after or after[0].isupper())
    return f" {half[0].upper()} M" + ("." if ends else "")


def _hour(match: re.Match[str]) -> str:
    return cardinal(int(match["hour"])) + _half(match)


def _date(match: re.Match[str]) -> str:
    month, day = int(match["month"]), int(match["day"])
    if not (1 <= month <= 12 and 1 <= day <= 31):
        return digits(match[0])
    return f"{MONTHS[month - 1]} {ordinal(day)}, {year(int(match['year']))}"


def _month_day(match: re.Match[str]) -> str:
    return f"{match['month']} {ordinal(int(match['day']))}"


def _money(match: re.Match[str]) -> str:
    one, many, cent, cents = MONEY[match["sign"]]
    whole, _, part = match["amount"].partition(".")
    if match["scale"]:
        return f"{number_words(match['amount'])} {match['scale']} {many}"
    if len(part) not in (0, 2):
        return f"{number_words(match['amount'])} {many}"
    words = f"{number_words(whole)} {one if whole == '1' else many}"
    if part.strip("0"):
        words += f" and {cardinal(int(part))} {cent if part == '01' else cents}"
    return words


def _range(match: re.Match[str]) -> str:
    return f"{match[1]} to {match[2]}"


def _measure(match: re.Match[str]) -> str:
    one, many = UNITS[match["unit"]]
    return f"{number_words(match['number'])} {one if match['number'] == '1' else many}"


def _fraction(match: re.Match[str]) -> str:
    above, below = int(match[1]), int(match[2])
    if below not in FRACTIONS or not 0 < above < below:
        return f"{cardinal(above)} over {cardinal(below)}"
    name = FRACTIONS[below]
    plural = "" if above == 1 else "s"
    return f"{cardinal(above)} {name}{plural}"


def _by(match: re.Match[str]) -> str:
    return f"{number_words(match[1])} by {number_words(match[2])}"


def _ordinal(match: re.Match[str]) -> str:
    return ordinal(int(match[1].replace(",", "")))


def _version(match: re.Match[str]) -> str:
    return " point ".join(number_words(part) for part in match[0].split("."))


def _decade(match: re.Match[str]) -> str:
    words = year(int(match[1]))
    return words[:-1] + "ies" if words.endswith("y") else words + "s"


def _number(match: re.Match[str]) -> str:
    return f" {number_words(match[0])} "


def _abbreviation(match: re.Match[str]) -> str:
    # At the end of the clause its full stop also ends the sentence.
    is_last = match.end() == len(match.string.rstrip()) and match[0].endswith(".")
    return ABBREVIATIONS[match[0]] + ("." if is_last else "")


def _rules() -> list[Rule]:
    half = r"(?:\s?(?P<half>[AaPp]\.?[Mm]\b\.?))?"
    abbreviations = "|".join(map(re.escape, ABBREVIATIONS))
    months = "|".join(MONTHS)
    written: list[tuple[str, str | Callable[[re.Match[str]], str]]] = [
        # Markdown.
        (r"(?s)```.*?(?:```|\Z)", f" {CODE}. "),
        (r"!?\[([^\]]*)\]\([^)]*\)", r"\1"),
        (r"\]\([^)]*\)", ""),
        (r"(?m)^[ \t]*(?:[-*•+>]|#{1,6})\s+", ""),
        (r"(?m)^[ \t]*(\d+)[.)]\s+", r"\1, "),
        (r"(?m)^[ \t]*\|?[-:| ]{3,}\|?[ \t]*$", ""),
        (r"\s*\|\s*", ", "),
        (r"</?[A-Za-z][^<>]*>", " "),
        # Addresses.
        (
            r"(?:https?://(?P<host>[\w-]+(?:\.[\w-]+)*)[^\s<>\")\]]*?)(?P<end>[.,;:!?]?)(?=[\s<>\")\]]|$)",
            _url,
        ),
        (r"\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+", lambda m: m[0].replace(".", " dot ")),
        (r"(?<=\w)\.(?=(?:com|org|net|io|dev|ai|py|js|json|txt|md|jpg|png|pdf)\b)", " dot "),
        # Dates, times, money, measures.
        (r"\b(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)\b", _date),
        (
            r"(?<![\d:.])(?P<hour>\d{1,2}):(?P<minute>\d\d)(?::(?P<second>\d\d))?(?![\d:])" + half,
            _time,
        ),
        (r"\b(?P<hour>\d{1,2})\s?(?P<half>[AaPp]\.?[Mm]\b\.?)", _hour),
        (rf"\b(?P<month>{months}) (?P<day>\d{{1,2}})(?:st|nd|rd|th)?\b(?![\d:.,]\d)", _month_day),
        (
            rf"(?P<sign>[$€£])\s?(?P<amount>{NUMBER})"
            r"(?:\s?(?P<scale>thousand|million|billion|trillion)\b)?",
            _money,
        ),
        (rf"\b({abbreviations})".replace(r"\b", r"(?<!\w)"), _abbreviation),
        (r"\b[Nn]o\. ?(?=\d)|#(?=\d)", "number "),
        (r"\b[Ff]ig\. ?(?=\d)", "figure "),
        (r"\bp\. ?(?=\d)", "page "),
        (rf"(?<![\w.-])({NUMBER})\s?-\s?({NUMBER})(?![\w-]|\.\d)", _range),
        (rf"(?<![\w.-])({NUMBER})\s?[-]\s?(?={NUMBER}\s?(?:{UNIT})(?![\w/]))", r"\1 to "),
        (rf"(?<![\w.])({NUMBER})\s?[x×]\s?({NUMBER})(?![\w.]\d)", _by),
        (r"\b((?:1[1-9]|20)\d0)s\b", _decade),
        (r"(?<=\d)[x×](?!\w)", " times "),
        (rf"(?P<number>{SIGNED})\s?(?P<unit>{UNIT})(?![\w/])", _measure),
        (r"(?<=[A-Za-z])-(?=\d)", " "),
        (r"(?<![\w./])(\d{1,3})/(\d{1,3})(?![\w/]|\.\d)", _fraction),
        (r"\b((?:\d{1,3},)?\d{1,3})(?:st|nd|rd|th)\b", _ordinal),
        (r"\b\d+(?:\.\d+){2,}\b", _version),
        (
            r"(?<![\w.,-])(?:1[5-9]|20)\d\d(?![\w%-]|[.,]\d|\s[a-z]+s\b)",
            lambda m: year(int(m[0])),
        ),
        (r"~\s?(?=\d)", "about "),
        (r"(?<=\d)\s?<\s?(?=-?\d)", " is less than "),
        (r"(?<=\d)\s?>\s?(?=-?\d)", " is more than "),
        (SIGNED, _number),
        (r"\d+(?:\.\d+)?", _number),
        # Symbols.
        (r"\b(and)/(or)\b", r"\1 \2"),
        (r"(?<=\w)/(?=\w)", " slash "),
        (r"\s--?\s", ", "),
        *((re.escape(sign), f" {word} ") for sign, word in SYMBOLS.items()),
    ]
    return [(re.compile(pattern), replacement) for pattern, replacement in written]


RULES = _rules()
