"""What a reader may write: read kindly, judged rightly, never run. The page's script: test_exercise_page.py."""

import builtins
import dataclasses
import math
import random
import re
import timeit

import pytest

from lib.answers import LONGEST, Outcome, Verdict, evaluate
from tests.answer_cases import ANGLE, CASES, COST, MOVED, SHAPE, THETA, VALUES

IDS = [f"{answer.label}: {given!s:.40}" for answer, given, *_ in CASES]
HOSTILE = [
    *("1" * 1_000_000, " " * 1_000_000, "(" * 10_000, "9**9**9", "9^" * 99 + "9", "1/0"),
    *("<script>alert(1)</script>" * 1000, "٣" * LONGEST, "1,000" * 40, "x" * LONGEST),
    *("1 " * 100, "- " * 100, "[" * 100 + "]" * 100, "a and " * 33, "1e" * 100, "1 000" * 40),
]  # fmt: skip


def refuses(error, message, call):
    with pytest.raises(error, match=re.escape(message)):
        call()


@pytest.mark.parametrize(("answer", "given", "outcome", "feedback"), CASES, ids=IDS)
def test_an_answer_gets_its_verdict(answer, given, outcome, feedback):
    assert answer.judge(given) == Verdict(outcome, feedback)


@pytest.mark.parametrize("text", HOSTILE, ids=lambda text: f"{text:.20}-{len(text)}")
@pytest.mark.parametrize("answer", [COST, THETA, SHAPE], ids=lambda a: a.kind)
def test_a_hostile_answer_is_answered_within_50_ms(answer, text):
    assert answer.judge(text).outcome is not Outcome.RIGHT
    # The best of five: what the machine does besides is not the question.
    assert min(timeit.repeat(lambda: answer.judge(text), number=1, repeat=5)) < 0.05


def test_no_answer_is_run_as_code(monkeypatch):
    def refuse(*_, **__):
        raise AssertionError("an answer was run")

    for name in ("eval", "exec", "compile", "__import__"):
        monkeypatch.setattr(builtins, name, refuse)
    for answer, given, *_ in CASES:
        answer.judge(given)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1+2*3", 7),
        ("(1+2)*3", 9),
        ("8-4-2", 2),
        ("16/4/2", 2),
        ("-2^2", -4),
        ("2^-1", 0.5),
        ("2^3^2", 512),
        ("2*-3", -6),
        ("2^-2^2", 2**-4),
        ("2pi^2", 2 * math.pi**2),
        ("2 cos(0)^2", 2),
        ("-cos 0", -1),
        ("sqrt 16 / 2", 2),
    ],
)
def test_signs_bind_as_in_mathematics(text, value):
    assert evaluate(text, grouped=True) == value


def test_random_numbers_are_right_only_when_they_are():
    dice = random.Random(7)
    for answer in (COST, ANGLE):
        for _ in range(3_000):
            factor = dice.choice((1, 1 + dice.uniform(-2, 2) * answer.tolerance, 1.5))
            value = answer.value * factor * dice.choice((1, 1, -1, 0.1))
            right = abs(value - answer.value) <= answer.tolerance * answer.value
            outcome = answer.judge(f"{value!r}").outcome
            assert (outcome is Outcome.RIGHT) == right, value


def test_bad_answers_from_code_are_refused():
    refuses(TypeError, "text: got int, want a str", lambda: COST.judge(3))
    refuses(ValueError, "option: got 'Perhaps'", lambda: VALUES.judge("Perhaps"))
    refuses(ValueError, "chosen: got", lambda: MOVED.judge(["w"]))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mistakes": {65_536: "the right one"}}, "65536 could be taken"),
        ({"mistakes": {1.5: "a", 1.501: "b"}}, "1.5 could be taken"),
        ({"mistakes": {1: "same", 2: "same"}}, "share a feedback"),
        ({"otherwise": "right cost", "mistakes": {}}, "share a feedback"),
        ({"otherwise": "", "mistakes": {}}, "share a feedback, or one has none"),
        ({"unit": "feet"}, "unit: got 'feet', want one of"),
        ({"value": math.inf}, "value: got inf, want a finite number"),
        ({"value": "65536"}, "value: got '65536', want a finite number"),
        ({"mistakes": {"2": "a"}}, "mistakes: got '2', want a finite number"),
        ({"tolerance": -1.0}, "tolerance: got -1.0, want 0 or more, below 1"),
    ],
)
def test_a_bank_of_mistakes_that_cannot_be_told_apart_is_refused(change, message):
    refuses(ValueError, message, lambda: dataclasses.replace(COST, **change))


@pytest.mark.parametrize(
    ("answer", "change", "message"),
    [
        (VALUES, {"mistakes": {"Yes": "a"}}, "'Its shape'"),
        (VALUES, {"mistakes": {**VALUES.mistakes, "No": "c"}}, "is the right option"),
        (VALUES, {"options": ("No", "No")}, "want two different ones or more"),
        (VALUES, {"mistakes": {"Yes": "a", "Its shape": "a"}}, "share a feedback"),
        (VALUES, {"value": "c"}, "value: got 'c', want one of"),
        (VALUES, {"options": ("Yes", "No", "Its shape", "")}, "got an empty one"),
        (SHAPE, {"value": (2.5,)}, "value: got (2.5,), want whole numbers"),
        (SHAPE, {"value": ()}, "value: got (), want a tuple of finite numbers"),
        (THETA, {"value": 5}, "value: got 5, want a tuple of finite numbers"),
        (MOVED, {"value": "qk"}, "value: got qk"),
        (MOVED, {"value": ()}, "value: got ()"),
        (MOVED, {"mistakes": {"q": "a"}}, "have no feedback"),
    ],
)
def test_a_choice_that_is_not_explained_is_refused(answer, change, message):
    refuses(ValueError, message, lambda: dataclasses.replace(answer, **change))
