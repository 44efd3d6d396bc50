"""Typed answers to an exercise: what a reader may write, how it is read, and what is said to it.

    rows = Number(
        "Parameters of the table",
        2048 * 32,
        right="2,048 rows of 32 numbers.",
        mistakes={2048 * 8: "That is the width of one head. How wide is a row?"},
        otherwise="How many numbers are in one row, and how many rows are there?",
    )
    rows.judge("2048*32")  # Verdict(Outcome.RIGHT, "2,048 rows of 32 numbers.")

Five kinds: `Number`, `Numbers` (a list), `Shape` (of a tensor), `Choice` (one of
several) and `Choices` (any number of several). A text is read kindly (65,536 and
2048*32 and 2^16 are one number) and is never run as code. exercises.js reads and judges
in the same way on pages without a kernel; tests/answer_cases.py holds both to one table.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Generic, TypeVar

from lib.checks import require_str

LONGEST = 200  # characters of an answer that are read
FAR_TOO_LONG = 10_000  # of which not even the blanks are looked at
DEEPEST = 20  # brackets, signs and powers within one another
EXACT = 1e-9  # relative: how far two ways to compute one number in float64 may differ
ROUNDED = 5e-3  # relative: how a mistaken answer may be rounded and still be recognised

# Words that may follow a number, by the name of their unit.
UNITS = {
    "rad": ("rad", "rads", "radian", "radians"),
    "deg": ("deg", "degs", "degree", "degrees", "°"),
    "turns": ("turn", "turns", "rev", "revs"),
    "parameters": ("parameter", "parameters", "param", "params"),
    "positions": ("position", "positions", "token", "tokens", "step", "steps"),
    "layers": ("layer", "layers"),
    "heads": ("head", "heads"),
    "bytes": ("byte", "bytes"),
    "rows": ("row", "rows", "time", "times"),
}
PROBLEMS = {
    "text": "",
    "long": "That is too long to be read.",
    "value": "That has no finite value.",
    "unit": "That is not the unit asked for.",
}


class Outcome(Enum):
    """What can become of an answer."""

    NOT_ATTEMPTED = "not attempted"
    UNREADABLE = "could not be read"
    WRONG = "not right"
    RIGHT = "right"


@dataclass(frozen=True)
class Verdict:
    """An outcome, and what is said to the reader about it, in Markdown."""

    outcome: Outcome
    feedback: str


# --- The kinds of answers -------------------------------------------------------------


Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class Written(Generic[Value]):
    """What a reader writes: one number, or several.

    label: names the field. value: the right answer, right within `tolerance`
    (relative). right: what is said to the right answer. mistakes: {wrong value: what is
    said to it}; one that is not whole is recognised when it was rounded, too.
    otherwise: what is said to any other number. unit: a key of UNITS, which the reader
    may write or leave out.
    Raises ValueError for two mistakes that could be taken for each other, or that share
    a feedback, and for an unknown unit.
    """

    label: str
    value: Value
    right: str
    otherwise: str
    mistakes: Mapping[Value, str] = field(default_factory=dict)
    unit: str | None = None
    tolerance: float = EXACT
    kind = ""
    example = ""
    coarse = "Close, but rounded too far: give more decimals."

    def __post_init__(self) -> None:
        _require_strings(self, "label", "right", "otherwise")
        if not (isinstance(self.tolerance, float) and 0 <= self.tolerance < 1):
            raise ValueError(
                f"tolerance: got {self.tolerance}, want 0 or more, below 1"
            )
        for name, value in (
            ("value", self.value),
            *(("mistakes", m) for m in self.mistakes),
        ):
            self._require_value(name, value)
        if self.unit is not None and self.unit not in UNITS:
            raise ValueError(f"unit: got {self.unit!r}, want one of {list(UNITS)}")
        for mistake in self.mistakes:
            taken_for = [m for m in self.mistakes if self.is_mistake(mistake, m)]
            if self.is_right(mistake) or taken_for != [mistake]:
                raise ValueError(
                    f"mistakes: {mistake} could be taken for another answer"
                )
        _require_own_feedback(self, [*self.mistakes.values(), self.otherwise])

    @property
    def wanted(self) -> str:
        """What could be read, for a reader whose answer could not."""
        of = "in" if self.unit in ("rad", "deg", "turns") else "of"
        return self.example.format(f" {of} {self.unit}" if self.unit else "")

    def judge(self, text: str) -> Verdict:
        """The verdict on what a reader wrote. Raises TypeError for anything but a text."""
        require_str("text", text)
        if len(text) <= FAR_TOO_LONG and BLANK.fullmatch(text):
            return NOTHING_WRITTEN
        try:
            found = self.read(text)
        except Unreadable as problem:
            return Verdict(Outcome.UNREADABLE, f"{problem} {self.wanted}".strip())
        if self.is_right(found):
            return Verdict(Outcome.RIGHT, self.right)
        known = (said for m, said in self.mistakes.items() if self.is_mistake(found, m))
        return Verdict(Outcome.WRONG, next(known, None) or self.complaint(found))

    def read(self, text: str) -> Value:
        """What a text says. Raises Unreadable."""
        raise NotImplementedError

    def is_right(self, found: Value) -> bool:
        raise NotImplementedError

    def is_mistake(self, found: Value, mistake: Value) -> bool:
        raise NotImplementedError

    def complaint(self, found: Value) -> str:
        """What is said to an answer that is wrong in no known way."""
        raise NotImplementedError

    def _require_value(self, name: str, value: Value) -> None:
        raise NotImplementedError


class Number(Written[float]):
    """One number."""

    kind = "number"
    example = "Write a number{}, such as 12,345 or 3*7 or 2.5e-3 or 2^5."

    def _require_value(self, name: str, value: float) -> None:
        if not _is_number(value):
            raise ValueError(f"{name}: got {value!r}, want a finite number")

    def read(self, text: str) -> float:
        """The number that a text says. Raises Unreadable."""
        bare = _without_unit(tidy(text), self.unit)
        return 0.0 if ZERO.fullmatch(bare) else evaluate(bare, grouped=True)

    def is_right(self, number: float) -> bool:
        return _close(number, self.value, self.tolerance)

    def is_mistake(self, number: float, mistake: float) -> bool:
        return _recognised(number, mistake, self.tolerance)

    def complaint(self, number: float) -> str:
        """What is said to an answer that is wrong in no known way."""
        return self.coarse if _is_rounded(number, self.value) else self.otherwise


class Numbers(Written[Sequence[float]]):
    """A list of numbers, with a tuple as `value` and as each mistake."""

    kind = "numbers"
    example = (
        "Write numbers{} with commas between them and points for decimals, "
        "such as 4, 2^-1, 0.75."
    )
    single = "That is one number; a list is asked for."
    counted = "That is a list of {}; the answer has another length."
    located = "Number {} is not right."

    def _require_value(self, name: str, value: Sequence[float]) -> None:
        if not (isinstance(value, tuple) and value and all(map(_is_number, value))):
            raise ValueError(f"{name}: got {value!r}, want a tuple of finite numbers")

    def read(self, text: str) -> Sequence[float]:
        """The numbers that a text lists. Raises Unreadable."""
        inside = _unwrapped(CALL.sub("", _without_unit(tidy(text), self.unit)))
        return [
            evaluate(_without_unit(item, self.unit), grouped=False)
            for item in self.items(inside)
        ]

    def items(self, text: str) -> list[str]:
        """The texts between commas; without commas, those between spaces."""
        return _items(text, SPACES)

    def is_right(self, numbers: Sequence[float]) -> bool:
        return _all_are(_close, numbers, self.value, self.tolerance)

    def is_mistake(self, numbers: Sequence[float], mistake: Sequence[float]) -> bool:
        return _all_are(_recognised, numbers, mistake, self.tolerance)

    def complaint(self, numbers: Sequence[float]) -> str:
        """Which entry is the first wrong one, or that there are too many or too few."""
        if len(numbers) == 1:
            return f"{self.single} {self.otherwise}"
        if len(numbers) != len(self.value):
            return f"{self.counted.format(len(numbers))} {self.otherwise}"
        pairs = list(zip(numbers, self.value, strict=True))
        if all(a == b or _is_rounded(a, b) for a, b in pairs):
            return self.coarse
        right = [_close(*pair, self.tolerance) for pair in pairs]
        return f"{self.located.format(right.index(False) + 1)} {self.otherwise}"


class Shape(Numbers):
    """The shape of a tensor: whole numbers, axis by axis; otherwise as `Numbers`."""

    kind = "shape"
    example = "Write whole numbers, not names, axis by axis, such as [6, 7, 9]."
    single = "That is one number; a shape has one for each axis."
    located = "Axis {} is not right."

    def _require_value(self, name: str, value: Sequence[float]) -> None:
        super()._require_value(name, value)
        if any(size < 0 or not float(size).is_integer() for size in value):
            raise ValueError(f"{name}: got {value!r}, want whole numbers from 0 on")

    def read(self, text: str) -> Sequence[float]:
        sizes = super().read(text)
        if any(size < 0 or not float(size).is_integer() for size in sizes):
            raise Unreadable("text")
        return sizes

    def items(self, text: str) -> list[str]:
        """As of numbers; 2x5x4x8 is a shape too."""
        return _items(text, TIMES)


@dataclass(frozen=True, eq=False)
class Choice:
    """One of several options; `mistakes` has a feedback for every wrong one."""

    label: str
    options: Sequence[str]
    value: str
    right: str
    mistakes: Mapping[str, str]
    kind = "choice"

    def __post_init__(self) -> None:
        if self.value not in self.options:
            raise ValueError(f"value: got {self.value!r}, want one of {self.options}")
        _require_options(self, {self.value, *self.mistakes})
        if self.value in self.mistakes:
            raise ValueError(f"mistakes: {self.value!r} is the right option")

    def judge(self, option: str) -> Verdict:
        """`option` is one of the options, or empty: not chosen yet."""
        if not option:
            return NOTHING_CHOSEN
        if option not in self.options:
            raise ValueError(f"option: got {option!r}, want one of {self.options}")
        if option == self.value:
            return Verdict(Outcome.RIGHT, self.right)
        return Verdict(Outcome.WRONG, self.mistakes[option])


@dataclass(frozen=True, eq=False)
class Choices:
    """Any number of several options; `mistakes` says of each option what ticking it
    wrongly, or wrongly leaving it out, overlooks. One such option is answered, the first
    that is ticked wrongly if there is one, and how many there are is told."""

    label: str
    options: Sequence[str]
    value: Sequence[str]
    right: str
    mistakes: Mapping[str, str]
    kind = "choices"

    def __post_init__(self) -> None:
        _require_options(self, set(self.mistakes))
        several = isinstance(self.value, tuple) and self.value
        if not several or not set(self.value) <= set(self.options):
            raise ValueError(f"value: got {self.value}, want some of {self.options}")

    def judge(self, chosen: Iterable[str]) -> Verdict:
        """`chosen` holds the ticked options; none means not attempted."""
        chosen = set(chosen)
        if not chosen:
            return NOTHING_CHOSEN
        if not chosen <= set(self.options):
            raise ValueError(f"chosen: got {chosen}, want some of {self.options}")
        added = [o for o in self.options if o in chosen and o not in self.value]
        missing = [o for o in self.options if o not in chosen and o in self.value]
        wrong = added + missing
        if not wrong:
            return Verdict(Outcome.RIGHT, self.right)
        more = MORE_WRONG.format(len(wrong)) if len(wrong) > 1 else ""
        return Verdict(Outcome.WRONG, self.mistakes[wrong[0]] + more)


MORE_WRONG = " That is one of {} to look at again."
Answer = Written | Choice | Choices
NOTHING_WRITTEN = Verdict(Outcome.NOT_ATTEMPTED, "Nothing is written here yet.")
NOTHING_CHOSEN = Verdict(Outcome.NOT_ATTEMPTED, "Nothing is chosen here yet.")


# --- Judging --------------------------------------------------------------------------


def _close(number: float, wanted: float, tolerance: float) -> bool:
    return abs(number - wanted) <= tolerance * abs(wanted)


def _is_rounded(number: float, value: float) -> bool:
    """Whether `number` is a value that is not whole, rounded to one to three digits."""
    return not float(value).is_integer() and any(
        number == float(f"{value:.{digits}g}") for digits in (1, 2, 3)
    )


def _recognised(number: float, mistake: float, tolerance: float) -> bool:
    """Whether `number` is the mistake; one that is not whole may have been rounded: by
    the share ROUNDED, or to two or three decimals."""
    if _close(number, mistake, tolerance):
        return True
    if float(mistake).is_integer() or number == 0:
        return False
    decimals = [float(f"{mistake:.{digits}f}") for digits in (2, 3)]
    return number in decimals or _close(number, mistake, ROUNDED)


def _all_are(
    alike: Callable, numbers: Sequence[float], wanted: Sequence[float], tolerance: float
) -> bool:
    return len(numbers) == len(wanted) and all(
        alike(*pair, tolerance) for pair in zip(numbers, wanted, strict=True)
    )


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return math.isfinite(value)


def _require_strings(answer: "Answer", *names: str) -> None:
    for name in names:
        require_str(name, getattr(answer, name))
    for said in answer.mistakes.values():
        require_str("mistakes", said)


def _require_options(answer: Choice | Choices, explained: set[str]) -> None:
    _require_strings(answer, "label", "right")
    for option in answer.options:
        require_str("options", option)
    if not all(answer.options):
        raise ValueError("options: got an empty one, want texts")
    if len(set(answer.options)) < 2 or len(set(answer.options)) < len(answer.options):
        raise ValueError(
            f"options: got {answer.options}, want two different ones or more"
        )
    if explained != set(answer.options):
        raise ValueError(
            f"mistakes: {sorted(explained ^ set(answer.options))} have no feedback or are no options"
        )
    _require_own_feedback(answer, list(answer.mistakes.values()))


def _require_own_feedback(answer: Answer, feedback: list[str]) -> None:
    said = [answer.right, *feedback]
    if len(set(said)) < len(said) or not all(said):
        raise ValueError(
            f"{answer.label}: two answers share a feedback, or one has none"
        )


# --- Reading --------------------------------------------------------------------------


class Unreadable(ValueError):
    """An answer that could not be read; `code` is the key of the reason in PROBLEMS."""

    def __init__(self, code: str) -> None:
        super().__init__(PROBLEMS[code])
        self.code = code


# Only these spaces and ASCII digits: what Python and a browser call a space or a digit
# differs, and both must read alike.
SAME = {"−": "-", "–": "-", "×": "*", "·": "*", "÷": "/", "π": "pi"}
BLANKS = re.compile("[ \t\r\n\u00a0\u2009\u202f]+")
BLANK = re.compile(f"(?:{BLANKS.pattern})?")
FULL_STOP = re.compile(r"(?<=[\])}])\.$")  # after the bracket of a list
EQUALS = re.compile(r"^.*[=≈~] *", re.DOTALL)  # 6000 / 4 = 1500
ZERO = re.compile("none|zero|nothing", re.IGNORECASE | re.ASCII)
PLAIN = r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)"
GROUPED = r"[1-9][0-9]{0,2}(?:,[0-9]{3}|[ _'][0-9]{3})+(?![0-9])(?:\.[0-9]*)?"
OPERATOR = r"\*\*|[-+*/^()]|pi|cos|sin|sqrt"
FUNCTIONS = {"cos": math.cos, "sin": math.sin, "sqrt": math.sqrt}
IMPLIED = (math.pi, *FUNCTIONS)  # what a number before it multiplies
POWER_OF_TEN = r"(?:[eE][+-]?[0-9]+)?"
TOKEN = {
    False: re.compile(rf" *(?:({PLAIN}{POWER_OF_TEN})|({OPERATOR}))"),
    True: re.compile(rf" *(?:((?:{GROUPED}|{PLAIN}){POWER_OF_TEN})|({OPERATOR}))"),
}
TIMES_SIGN = re.compile(r"(?<=[0-9)]) *[xX] *(?=[0-9(.])")
HEXADECIMAL = re.compile(r"(?<![0-9.])0[xXbBoO][0-9a-fA-F]")  # not 0 times something
UNIT = re.compile(r"(.*?) *([A-Za-z]+|°)\.?", re.DOTALL)
UNIT_BEFORE = re.compile(r"([A-Za-z]+) +(.*)", re.DOTALL)  # position 15
EACH = re.compile(
    r" *(?:/|per |a |each |for each |for every ) *(?:position|token)$", re.I | re.A
)
CALL = re.compile(r"^(?:torch\.)?(?:size|tensor|shape) *(?=[\[(])", re.I | re.A)
COMMA = re.compile(r" *(?:, *(?:and +)?| and ) *")
SEMICOLON = re.compile(r" *; *")  # where it separates, a comma does not
SPACES = re.compile(r" +")
TIMES = re.compile(r" *[xX*] *| by | +")
BRACKETS = {"(": ")", "[": "]", "{": "}"}


def tidy(text: str) -> str:
    """`text` with one kind of space, minus and times. Raises Unreadable when too long."""
    if len(text) > LONGEST:
        raise Unreadable("long")
    for sign, plain in SAME.items():
        text = text.replace(sign, plain)
    text = FULL_STOP.sub("", BLANKS.sub(" ", text).strip(" "))
    return EQUALS.sub("", text).strip(" ")


def evaluate(text: str, grouped: bool) -> float:
    """The value of a sum of products of powers; `grouped`: 65,536 is one number.

    Raises Unreadable for anything else, and for a value that is not finite.
    """
    if HEXADECIMAL.search(text):
        raise Unreadable("text")
    return _Expression(TIMES_SIGN.sub("*", text), TOKEN[grouped]).value()


class _Expression:
    """Reads +, -, *, /, ^ (or **), brackets, cos, sin, sqrt, pi and numbers, in their usual order."""

    def __init__(self, text: str, token: re.Pattern) -> None:
        self._tokens: list[float | str] = []  # a number, or a sign
        at = 0
        while at < len(text):
            match = token.match(text, at)
            if not match:
                raise Unreadable("text")
            number, sign = match[1], match[2]
            if number is not None:
                sign = _finite(float(re.sub("[,_' ]", "", number)))
            self._tokens.append(math.pi if sign == "pi" else sign)
            at = match.end()
        self._tokens.reverse()  # so that the next one is the last

    def value(self) -> float:
        value = self._sum(0)
        if self._tokens:
            raise Unreadable("text")
        return value

    def _next(self, *signs: str) -> str | None:
        """Takes the next token if it is one of `signs`."""
        token = self._tokens[-1] if self._tokens else None
        if not isinstance(token, str) or token not in signs:
            return None
        self._tokens.pop()
        return token

    def _sum(self, depth: int) -> float:
        value = self._product(depth)
        while sign := self._next("+", "-"):
            other = self._product(depth)
            value = _finite(value + other if sign == "+" else value - other)
        return value

    def _product(self, depth: int) -> float:
        value = self._signed(depth)
        while True:
            if sign := self._next("*", "/"):
                other = self._signed(depth)
                if sign == "/" and other == 0:
                    raise Unreadable("value")
                value = _finite(value * other if sign == "*" else value / other)
            elif self._tokens and self._tokens[-1] in IMPLIED:  # 2 pi, 2 cos(1)
                value = _finite(value * self._power(depth))
            else:
                return value

    def _signed(self, depth: int) -> float:
        if depth > DEEPEST:
            raise Unreadable("text")
        if sign := self._next("+", "-"):
            value = self._signed(depth + 1)
            return -value if sign == "-" else value
        return self._power(depth)

    def _power(self, depth: int) -> float:
        value = self._atom(depth)
        if self._next("^", "**"):
            exponent = self._signed(depth + 1)
            try:
                return _finite(math.pow(value, exponent))
            except (OverflowError, ValueError):  # 9^9^9, 0^-1, (-8)^0.5
                raise Unreadable("value") from None
        return value

    def _atom(self, depth: int) -> float:
        if depth > DEEPEST:
            raise Unreadable("text")
        if name := self._next(*FUNCTIONS):
            value = self._atom(depth + 1)
            if name == "sqrt" and value < 0:
                raise Unreadable("value")
            return FUNCTIONS[name](value)
        if self._next("("):
            value = self._sum(depth + 1)
            if not self._next(")"):
                raise Unreadable("text")
            return value
        number = self._tokens.pop() if self._tokens else ""
        if isinstance(number, str):
            raise Unreadable("text")
        return number


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise Unreadable("value")
    return value


def _without_unit(text: str, unit: str | None) -> str:
    """`text` without the word of its unit. Raises Unreadable for that of another unit."""
    if unit == "rad":
        text = EACH.sub("", text)
    for pattern, word_at, rest_at in ((UNIT, 2, 1), (UNIT_BEFORE, 1, 2)):
        match = pattern.fullmatch(text)
        word = match[word_at].lower() if match else ""
        if match and unit and word in UNITS[unit]:
            return match[rest_at]
        if any(word in words for words in UNITS.values()):
            raise Unreadable("unit")
    return text


def _unwrapped(text: str) -> str:
    """`text` without the brackets that enclose all of it."""
    while text and text[0] in BRACKETS and text[-1] == BRACKETS[text[0]]:
        depth = 0
        for at, sign in enumerate(text):
            depth += (sign in BRACKETS) - (sign in BRACKETS.values())
            if depth == 0 and at < len(text) - 1:
                return text  # (1 + 2), (3 + 4)
        text = text[1:-1].strip(" ")
    return text


def _items(text: str, separator: re.Pattern) -> list[str]:
    """The items between commas; where there is none, those between `separator`s."""
    for comma in (SEMICOLON, COMMA):
        if comma.search(text):
            items = comma.split(text)
            return items[:-1] if items[-1] == "" else items  # (5,) is a list of one
    return separator.split(text)
