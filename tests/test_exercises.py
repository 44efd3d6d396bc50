"""Exercises with a kernel, and the book's bank of them: every known mistake is answered for itself."""

import json
import random
import re

import pytest
from bs4 import BeautifulSoup

from lib.answers import Choice, Choices, Numbers, Outcome, Verdict, Written
from lib.exercise_bank import CHAPTERS, exercise, progress
from lib.exercises import Exercise, Progress, inline, markdown
from tests.answer_cases import ANGLE, COST, MOVED, SHAPE, THETA, VALUES
from tests.chapters import NAMES, ROOT, code_cells, prose

EXERCISES = [one for several in CHAPTERS.values() for one in several]
ANSWERS = [(one, answer) for one in EXERCISES for answer in one.answers]
EACH_ANSWER = pytest.mark.parametrize(
    ("one", "answer"), ANSWERS, ids=[f"{one.name}: {a.label}" for one, a in ANSWERS]
)
EACH = pytest.mark.parametrize("one", EXERCISES, ids=lambda one: one.name)


def sample(*answers):
    answers = answers or (COST, THETA, SHAPE, VALUES, MOVED)
    return Exercise("sample", "A sample", "Say.", answers, ["One.", "Two."], "So.")


def said_in(markup):
    return BeautifulSoup(markup, "html.parser").get_text()


def written(value, digits=5):
    """A number or a list as a reader would write it, with so many digits."""
    if isinstance(value, tuple):
        return ", ".join(written(one, digits) for one in value)
    return repr(value) if float(value).is_integer() else f"{value:.{digits}g}"


def right_answer(answer):
    return (
        written(answer.value)
        if isinstance(answer, Written)
        else answer.value
        if isinstance(answer, Choice)
        else list(answer.value)
    )


# --- Any exercise ---------------------------------------------------------------------


def test_checking_remembers_and_forgetting_forgets():
    one = sample()
    assert one.state == "not answered yet"
    verdicts = one.check(["65536", "1, 10, 100, 1000", "?", "", ["q", "k"]])
    assert [verdict.outcome for verdict in verdicts] == [
        Outcome.RIGHT,
        Outcome.WRONG,
        Outcome.UNREADABLE,
        Outcome.NOT_ATTEMPTED,
        Outcome.RIGHT,
    ]
    assert one.state == "2 of 5 right"
    assert one.given == ["65536", "1, 10, 100, 1000", "?", "", ["q", "k"]]
    one.forget()
    assert one.state == "not answered yet" and one.given == ["", "", "", "", []]
    one.check(["65536", "1 .1 .01 .001", "2x5x4x8", "No", ["q", "k"]])
    assert one.state == "right"


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"name": 'a"><b>'}, ValueError, "name: got"),
        ({"title": None}, TypeError, "title: got NoneType, want a str"),
        ({"hints": "one"}, TypeError, "hints: got 'one'"),
        ({"answers": []}, TypeError, r"answers: got \[\]"),
        ({"answers": ["x"]}, TypeError, r"answers: got \['x'\]"),
    ],
)
def test_a_part_that_is_none_is_named(change, error, message):
    parts = dict(name="n", title="T", prompt="P", answers=[COST], hints=["H"])
    with pytest.raises(error, match=message):
        Exercise(**parts | {"solution": "S"} | change)


def test_what_was_given_is_kept_as_it_was():
    one, ticked = sample(MOVED), ["q"]
    one.check([ticked])
    ticked.append("k")
    assert one.given == [["q"]]


def test_checking_nothing_is_no_answer():
    one = sample()
    one.check(["", " ", "", "", []])
    assert one.state == "not answered yet"


def test_marks_in_titles_and_options_stay_text():
    option = 'a "b" <c> & `d`'
    choice = Choice("`Which`?", (option, "other"), option, "r", {"other": "w"})
    one = Exercise("marks", 'A "title"', "Say.", [choice], ["One."], "So.")
    page = BeautifulSoup(one.html(), "html.parser")
    assert page.select_one("[role=form]")["aria-label"] == 'A "title"'
    assert page.select_one("input")["value"] == option
    assert "`" not in one.widget.children[1].children[0].description
    assert one.widget is one.widget


def test_another_number_of_answers_is_refused():
    with pytest.raises(ValueError, match="given: got 1 answers, want 5"):
        sample().check(["65536"])


def test_markup_that_is_no_markdown_stays_text():
    text = '<script>x()</script> <img src=x onerror="y()">'
    assert "<script" not in markdown(text) and "<img" not in inline(text)
    assert said_in(inline(text)) == text


def test_formulas_become_mathml():
    assert "<math" in markdown("So $\\theta_1 = 0.1$.") and "$" not in markdown("$x$")


def test_the_same_exercise_gives_the_same_page():
    assert sample().html() == sample().html()


def test_no_text_of_an_exercise_can_end_its_script():
    # An option's text is in the data as it is; what is said is HTML by then.
    option = "</script><script>x()"
    answer = Choice("Which?", (option, "other"), option, "yes", {"other": "no"})
    data = re.search(
        r'<script type="application/json">(.*?)</script>', sample(answer).html()
    )[1]
    assert json.loads(data)["name"] == "sample"
    assert json.loads(data)["answers"][0]["value"] == option


# --- With a kernel --------------------------------------------------------------------


class Form:
    """The ipywidgets of an exercise, used as a reader uses them."""

    def __init__(self, one):
        self.widget = one.widget
        _, *self.parts, self.buttons, self.disclosures = self.widget.children

    def write(self, n, value):
        *_, control, _says = self.parts[n].children
        control.value = value

    def tick(self, n, *options):
        for box in self.parts[n].children[1:-1]:
            box.value = box.description in options

    def press(self, description):
        (button,) = (b for b in self.buttons.children if b.description == description)
        button.click()

    def said(self, n):
        return said_in(self.parts[n].children[-1].value.split("</style>")[-1])


def test_the_fields_of_the_widget_answer():
    form = Form(sample())
    form.write(0, "2048*8")
    form.write(3, "Yes")
    form.tick(4, "q", "k")
    assert form.said(0) == ""
    form.press("Check")
    assert form.said(0) == "Not right. one head"
    assert form.said(1) == "Not attempted. Nothing is written here yet."
    assert form.said(3) == "Not right. not turned"
    assert form.said(4) == "Right. right moved"
    form.write(0, "65,536")
    assert form.said(0) == "", "what was said no longer fits"
    form.press("Check")
    assert form.said(0) == "Right. right cost"
    form.press("Clear")
    assert [form.said(n) for n in range(5)] == [""] * 5
    assert form.parts[0].children[0].value == ""


def test_enter_checks_a_text():
    form = Form(sample(ANGLE))
    form.write(0, "171.9")
    text = form.parts[0].children[0]
    text._handle_custom_msg({"event": "submit"}, [])
    assert form.said(0) == "Not right. in degrees"


def test_the_widget_follows_answers_from_code():
    one = sample(ANGLE)
    one.check(["171.9"])
    form = Form(one)
    assert form.parts[0].children[0].value == "171.9"
    assert form.said(0) == "Not right. in degrees"
    one.check(["172"])  # the same verdict on another text
    assert form.parts[0].children[0].value == "172"
    one.check(["3 rad"])
    assert form.said(0) == "Right. right angle"
    form.write(0, "not checked")
    one.forget()
    assert form.said(0) == form.parts[0].children[0].value == ""


def test_the_same_wrong_answer_is_answered_again():
    form = Form(sample(ANGLE))
    for text in ("171.9", "172"):
        form.write(0, text)
        assert form.said(0) == ""
        form.press("Check")
        assert form.said(0) == "Not right. in degrees"


def test_hints_lie_inside_one_another_and_the_solution_apart():
    for markup in (sample().html(), Form(sample()).disclosures.value):
        page = BeautifulSoup(markup, "html.parser")
        summaries = [tag.get_text() for tag in page.select("summary")]
        assert summaries == ["Hint 1 of 2", "Hint 2 of 2", "Solution in words"]
        second = page.select("details")[1]
        assert second.find_parent("details").summary.get_text() == "Hint 1 of 2"
        assert page.select("details")[2].find_parent("details") is None
        assert not page.select("details[open]")


def test_every_field_of_the_page_has_a_label():
    page = BeautifulSoup(sample().html(), "html.parser")
    for field in page.select("input"):
        assert (
            page.select_one(f'label[for="{field.get("id")}"]')
            or field.parent.name == "label"
        )
        assert page.find(id=f"{field.get('id') or field['name']}-says")
    assert [tag.get_text() for tag in page.select("legend")] == [
        VALUES.label,
        MOVED.label,
    ]


def test_progress_follows_the_exercises_of_this_kernel():
    first, second = sample(ANGLE), sample(COST)
    shown, forget = Progress({first: "one", second: "two"}).widget.children
    assert "0 of 2" in shown.value and "not answered yet" in shown.value
    first.check(["3"])
    assert "1 of 2" in shown.value
    forget.click()
    assert "0 of 2" in shown.value and first.given == [""]


def test_progress_tells_of_the_functions_checked_in_this_kernel():
    verdict = Verdict(Outcome.WRONG, "It turns the other way.")
    shown, _ = Progress({}, {"rotate_pair": verdict}).widget.children
    assert "rotate_pair not right" in said_in(shown.value)


def test_the_example_of_the_notes_answers():
    notes = (ROOT / "CONTRIBUTING.md").read_text()
    (source,) = (
        block
        for block in re.findall(r"(?s)```python\n(.*?)```", notes)
        if "Exercise(" in block
    )
    names = {}
    exec(source.replace("\nExercise(", "\none = Exercise("), names)
    one = names["one"]
    one.check(["2*pi", "slower"])
    assert one.state == "right"
    assert one.check(["360", "faster"])[0].feedback == "That is a full turn in degrees."


# --- The bank -------------------------------------------------------------------------


def test_an_unknown_exercise_is_refused_with_the_known_names():
    with pytest.raises(ValueError, match="name: got 'cost', want one of sum-of-rows"):
        exercise("cost")


@EACH_ANSWER
def test_the_right_answer_is_right(one, answer):
    verdict = answer.judge(right_answer(answer))
    assert (verdict.outcome, verdict.feedback) == (Outcome.RIGHT, answer.right)


@EACH_ANSWER
def test_every_known_mistake_gets_its_own_feedback(one, answer):
    if isinstance(answer, Choices):
        for option, said in answer.mistakes.items():
            chosen = set(answer.value) ^ {option}
            assert answer.judge(chosen).feedback == said
    else:
        for mistake, said in answer.mistakes.items():
            for digits in (5, 3):  # rounded by hand, too
                wrong = mistake
                if isinstance(answer, Written):
                    wrong = written(mistake, digits)
                verdict = answer.judge(wrong)
                assert (verdict.outcome, verdict.feedback) == (Outcome.WRONG, said)
    assert answer.mistakes, "a bank without a mistake"


def test_no_example_of_what_can_be_read_is_an_answer():
    # The words after a number that could not be read must not tell it.
    for _, answer in ANSWERS:
        if isinstance(answer, Written):
            shown = answer.wanted.partition("such as ")[2].removesuffix(".")
            examples = [shown] if isinstance(answer, Numbers) else shown.split(" or ")
            assert examples[0][0] in "[0123456789"
            for example in examples:
                assert answer.judge(example).outcome is Outcome.WRONG, example


def test_no_two_kinds_of_mistake_of_an_exercise_share_a_feedback():
    for one in EXERCISES:
        kinds = {}  # what is said: the mistakes that are told so
        for answer in one.answers:
            for mistake, said in answer.mistakes.items():
                kinds.setdefault(said, set()).add(mistake)
        assert all(len(mistakes) == 1 for mistakes in kinds.values()), one.name


@EACH_ANSWER
def test_nothing_wrong_is_called_right(one, answer):
    dice = random.Random(3)
    if isinstance(answer, Choice | Choices):
        for _ in range(200):
            some = dice.sample(answer.options, dice.randint(0, len(answer.options)))
            if isinstance(answer, Choices):
                right = set(some) == set(answer.value)
                assert (answer.judge(some).outcome is Outcome.RIGHT) == right
            elif some:
                right = some[0] == answer.value
                assert (answer.judge(some[0]).outcome is Outcome.RIGHT) == right
        return
    wanted = answer.value if isinstance(answer, Numbers) else (answer.value,)
    pool = [
        *wanted,
        *range(-3, 40),
        0.1,
        0.5,
        64,
        1e-3,
        1e9,
        *(w * 1.02 for w in wanted),
    ]
    for _ in range(4_000):
        length = len(wanted) if dice.random() < 0.8 else dice.randint(1, 6)
        if not isinstance(answer, Numbers):
            length = 1
        numbers = [dice.choice(pool) for _ in range(length)]
        right = len(numbers) == len(wanted) and all(
            abs(n - w) <= answer.tolerance * abs(w)
            for n, w in zip(numbers, wanted, strict=True)
        )
        outcome = answer.judge(", ".join(map(repr, numbers))).outcome
        assert (outcome is Outcome.RIGHT) == right, numbers


@EACH
def test_hints_do_not_tell_the_answer(one):
    hints = " ".join(said_in(markdown(hint)) for hint in one.hints)
    assert one.hints
    for answer in one.answers:
        if isinstance(answer, Numbers):
            assert written(answer.value) not in hints
        elif isinstance(answer, Written):
            numbers = re.findall(r"(?<![\w.^/−-])\d[\d,]*(?:\.\d+)?(?![\w/])", hints)
            told = {float(n.replace(",", "")) for n in numbers}
            assert float(answer.value) not in told, told
        else:
            options = [answer.value] if isinstance(answer, Choice) else answer.value
            assert not any(option in hints for option in options if len(option) > 8)
        assert answer.right not in hints and one.solution not in hints


@EACH
def test_the_solution_tells_the_answer_of_every_number(one):
    solution = said_in(markdown(one.solution)).replace(",", "").replace(" ", "")
    for answer in one.answers:
        values = answer.value if isinstance(answer, Numbers) else (answer.value,)
        if isinstance(answer, Written):
            for value in values:
                assert any(f"{value:{spec}}" in solution for spec in ("g", ".4g")), (
                    value
                )


def test_the_exercises_stand_in_their_chapters_in_order():
    for name in NAMES:
        asked = [
            match
            for cell in code_cells(name)
            for match in re.findall(r'^exercise\("(.+)"\)$', cell.source, re.MULTILINE)
        ]
        assert asked == [one.name for one in CHAPTERS.get(name, [])]
        titles = dict(
            re.findall(
                r"^:::\{exercise-start\} (.+)\n:label: (.+)$",
                "\n".join(prose(name)),
                re.MULTILINE,
            )
        )
        for one in CHAPTERS.get(name, []):
            assert titles[one.title] == one.name


def test_every_chapter_with_a_method_asks_something():
    without_method = {"00_opening", "08_sources"}
    assert list(CHAPTERS) == [name for name in NAMES if name not in without_method]
    assert list(progress().exercises) == EXERCISES
    assert len({one.name for one in EXERCISES}) == len(EXERCISES)
