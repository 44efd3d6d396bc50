"""Exercises on pages without a kernel: read and judged as Python does, remembered, by keyboard, in both themes."""

import random
import re
import subprocess
import sys

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import expect

from lib.answers import Choice, Numbers, Outcome, Written
from lib.exercise_bank import CHAPTERS, progress
from lib.exercises import LABELS, SCRIPT, Exercise, inline, markdown
from tests.answer_cases import CASES, COST, SHAPE, THETA
from tests.chapters import ROOT
from tests.conftest import DESK, PHONE, SETTLED, axe, only
from tests.test_answers import HOSTILE
from tests.test_exercises import right_answer, said_in, written

pytestmark = pytest.mark.rests_on("lib", "tools")

# Fills a form's fields, presses Check, and gives what is then said: [[outcome, words], ...].
ANSWER = """async (form, given) => {
  const parts = [...form.querySelectorAll(".part")];
  given.forEach((value, i) => {
    for (const input of parts[i].querySelectorAll("input"))
      if (input.type === "text") input.value = value;
      else input.checked = [value].flat().includes(input.value);
  });
  form.querySelector("button").click();
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return parts.map((part) => part.querySelector(".says")).map((says) => [says.dataset.outcome, says.textContent]);
}"""
PAGE = "<!DOCTYPE html><html lang='en'><title>An exercise</title><main><h1>An exercise</h1>{}</main></html>"
EXERCISES = [(one, page) for page, several in CHAPTERS.items() for one in several]
# The faults that a narrow page or another theme may bring.
WIDTH_OR_THEME = ["color-contrast", "scrollable-region-focusable", "target-size"]
EACH_CHAPTER = pytest.mark.parametrize("chapter", CHAPTERS)


def words(verdict):
    return f"{LABELS[verdict.outcome]} {said_in(inline(verdict.feedback))}"


def expected(answers, given):
    verdicts = [a.judge(one) for a, one in zip(answers, given, strict=True)]
    return [[verdict.outcome.value, words(verdict)] for verdict in verdicts]


@pytest.fixture
def bare(browser):
    """Opens pieces of a page with nothing else on it, and no network at all."""
    profile = browser.new_context(offline=True)
    yield lambda markup: _opened(profile, markup)
    profile.close()


def _opened(profile, markup):
    page = profile.new_page()
    page.set_content(PAGE.format(markup))
    return page


def answered(page, answers, given):
    """What the page says when each of `answers` is given what stands at its place."""
    exercise = Exercise("many", "Many", "Say.", answers, ["Hint."], "So.")
    form = page.locator(".answers[role=form]")
    page.set_content(PAGE.format(exercise.html()))
    return form.evaluate(ANSWER, given)


@pytest.fixture
def form(visit):
    """Opens an exercise in its chapter; at the end no page must have complained or asked another host."""
    visits = []

    def open_form(name, **options):
        (chapter,) = (page for one, page in EXERCISES if one.name == name)
        visits.append(visit(f"chapters/{chapter}.html", **options))
        return on_page(visits[-1].page, name)

    yield open_form
    assert [(seen.complaints, seen.elsewhere) for seen in visits] == [([], [])] * len(
        visits
    )


def on_page(page, name):
    return page.locator(f"#{name} [role=form]")


def says(form, n=0):
    return form.locator(".says").nth(n)


# --- The same verdicts as Python ------------------------------------------------------


def test_the_page_judges_the_table_of_cases_as_python_does(bare):
    answers, given = [case[0] for case in CASES], [case[1] for case in CASES]
    assert answered(bare(""), answers, given) == expected(answers, given)


def test_the_page_judges_random_texts_as_python_does(bare):
    dice = random.Random(11)
    pieces = [
        *("65", "536", "0.1", "1e-1", "1", "2", "5", "4", "8", ",", ",", ";", " ", " "),
        *("(", ")", "[", "]", "^", "**", "*", "x", "X", "-", "+", "/", "pi", "π", "rad"),
        *("deg", "and", "_", "'", "1,500", "0x1", "=", "torch.Size(", "٣", "\u00a0"),
        *(".", "−", "×", "e3", "{", "}", "\n", "\u2028", "parameters", "°", "shape"),
        *("cos", "sin", "sqrt", "by", "per position", "none", "position", "~"),
    ]  # fmt: skip
    answers = [COST, THETA, SHAPE] * 1_500
    given = ["".join(dice.choices(pieces, k=dice.randint(1, 9))) for _ in answers]
    # A text field holds one line: line breaks are dropped before anything is read.
    given = [text.replace("\n", "") for text in given]
    found, wanted = answered(bare(""), answers, given), expected(answers, given)
    assert [x for x in zip(given, found, wanted, strict=True) if x[1] != x[2]] == []
    outcomes = {outcome for outcome, _ in found}
    assert len(outcomes) > 1, "texts that say nothing compare nothing"


@EACH_CHAPTER
def test_right_answers_and_every_known_mistake_on_the_page(form, chapter):
    page = form(CHAPTERS[chapter][0].name).page
    for one in CHAPTERS[chapter]:
        seen = on_page(page, one.name)
        right = [right_answer(answer) for answer in one.answers]
        outcomes = {outcome for outcome, _ in seen.evaluate(ANSWER, right)}
        assert outcomes == {"right"}, one.name
        for n, answer in enumerate(one.answers):
            for mistake in answer.mistakes:
                given = list(right)
                if isinstance(answer, Written):
                    given[n] = written(mistake)
                elif isinstance(answer, Choice):
                    given[n] = mistake
                else:
                    given[n] = sorted(set(answer.value) ^ {mistake})
                assert seen.evaluate(ANSWER, given) == expected(one.answers, given)


def test_a_hostile_answer_is_answered_at_once_and_never_run(bare):
    page = bare("")
    attacks = [
        "window.owned=1",
        "<img src=x onerror='window.owned=1'>",
        "</script><script>window.owned=1</script>",
        "${window.owned=1}",
        "constructor.constructor('window.owned=1')()",
        "__proto__",
    ]
    answers = [COST, THETA, SHAPE]
    exercise = Exercise("hostile", "Hostile", "Say.", answers, ["Hint."], "So.")
    page.set_content(PAGE.format(exercise.html()))
    timed = """(form, text) => {
      window.requestAnimationFrame = (callback) => callback();  // so that a submission is answered within itself
      form.querySelectorAll("input").forEach((input) => (input.value = text));
      const times = [1, 2, 3, 4, 5].map(() => {
        const start = performance.now();
        form.querySelector('button').click();
        return performance.now() - start;
      });
      return [Math.min(...times), ...[...form.querySelectorAll(".says")].map((says) => says.dataset.outcome)];
    }"""
    for text in [*attacks, *HOSTILE]:
        took, *outcomes = page.locator("[role=form]").evaluate(timed, text)
        assert took < 50, text[:40]
        assert "right" not in outcomes and "" not in outcomes, text[:40]
    assert page.evaluate("window.owned") is None
    assert page.locator("[role=form] img").count() == 0


def test_the_script_runs_no_text_and_asks_nobody():
    assert not re.search(
        r"\beval\b|\bFunction\(|fetch\(|XMLHttp|import\(|sendBeacon|https?:", SCRIPT
    )


# --- As a reader meets it -------------------------------------------------------------


def test_by_keyboard_alone(form):
    seen = form("table-cost")
    press = seen.page.keyboard.press
    seen.locator("input").first.focus()
    seen.page.keyboard.type("2048*8")
    press("Tab")
    seen.page.keyboard.type("0")
    press("Enter")
    says(seen).get_by_text("That is as wide as one head").wait_for()
    assert says(seen, 1).get_attribute("data-outcome") == "right"
    assert seen.locator("input").first.get_attribute("aria-invalid") == "true"
    for _ in range(3):
        press("Tab")
    focused = "document.activeElement.textContent"
    assert seen.page.evaluate(focused) == "Hint 1 of 2"
    press("Enter")
    press("Tab")
    assert seen.page.evaluate(focused) == "Hint 2 of 2", "the next one is inside"
    press("Shift+Tab")
    press("Shift+Tab")
    assert seen.page.evaluate(focused) == "Clear"
    press("Enter")
    assert seen.locator("input").first.input_value() == ""
    assert seen.page.evaluate("document.activeElement.id") == "table-cost-1"


def test_choices_by_keyboard(form):
    seen = form("three-failures")
    seen.locator("input").first.focus()
    seen.page.keyboard.press("Space")
    seen.page.keyboard.press("ArrowDown")
    seen.page.keyboard.press("Enter")
    says(seen).get_by_text("To be untrained a row has to be there").wait_for()
    assert says(seen, 1).text_content().startswith("Not attempted.")


def test_what_was_said_goes_when_the_answer_is_changed(form):
    seen = form("table-cost")
    seen.locator("input").first.fill("16384")
    seen.get_by_role("button", name="Check").click()
    says(seen).get_by_text("Not right.").wait_for()
    seen.locator("input").first.fill("16385")
    assert says(seen).text_content() == ""
    assert seen.locator("[aria-invalid]").count() == 0


def test_answers_are_kept_and_can_be_cleared(form):
    seen = form("table-cost")
    seen.evaluate(ANSWER, ["", " "])
    kept = "localStorage.getItem('where-a-token-stands/table-cost')"
    assert seen.page.evaluate(kept) is None, "nothing was answered"
    seen.evaluate(ANSWER, ["65,536", "7"])
    on_page(seen.page, "twice-as-long").locator("input").first.check()
    seen.page.reload()
    assert seen.locator("input").first.input_value() == "65,536"
    assert says(seen).text_content().startswith("Right.")
    assert says(seen, 1).text_content().startswith("Not right.")
    assert on_page(seen.page, "twice-as-long").locator(":checked").count() == 0, (
        "what was not checked is not kept"
    )
    seen.get_by_role("button", name="Clear").click()
    assert says(seen).text_content() == ""
    seen.page.reload()
    assert seen.locator("input").first.input_value() == ""


def test_the_summary_counts_across_chapters_and_forgets(form):
    seen = form("sum-of-rows")
    seen.evaluate(ANSWER, ["3, 7, 16"])
    seen.page.goto(seen.page.url.replace("01_learned_positions", "07_exercises"))
    summary = seen.page.locator(".progress-of-answers")
    count = len(EXERCISES)
    assert (
        summary.locator(".total").text_content() == f"1 of {count} exercises are right."
    )
    count_them = "window.told = 0; document.addEventListener('answered', () => told++)"
    seen.page.evaluate(count_them)
    on_page(seen.page, "table-cost").evaluate(ANSWER, ["65536", "65536"])
    assert seen.page.evaluate("told") == 1, "each form is brought to life once"
    assert "1 of 2 right" in summary.locator('[data-name="table-cost"]').text_content()
    other = seen.page.context.new_page()  # the summary follows another tab, too
    other.goto(seen.page.url)
    on_page(other, "table-cost").evaluate(ANSWER, ["65536", "0"])
    summary.get_by_text(f"2 of {count} exercises are right.").wait_for()
    seen.page.once("dialog", lambda asked: asked.dismiss())
    summary.get_by_role("button").click()
    assert "2 of" in summary.locator(".total").text_content(), "it asks first"
    seen.page.once("dialog", lambda asked: asked.accept())
    summary.get_by_role("button").click()
    assert "0 of" in summary.locator(".total").text_content()
    assert (
        on_page(seen.page, "table-cost").locator("input").first.input_value()
        == "65536" * 0
    )
    assert seen.page.evaluate("localStorage.length") == seen.page.evaluate(
        "Object.keys(localStorage).filter((key) => !key.startsWith('where-a-token-stands/')).length"
    )


def test_the_summary_leads_to_every_exercise_by_its_number(html):
    pages = {
        page: BeautifulSoup((html / f"chapters/{page}.html").read_text(), "html.parser")
        for page in CHAPTERS
    }
    links = pages["07_exercises"].select(".progress-of-answers a")
    assert len(links) == len(EXERCISES)
    for link, (one, page) in zip(links, progress().exercises.items(), strict=True):
        number = link.parent["value"]
        assert link["href"] == f"{page}.html#{one.name}"
        title = pages[page].find(id=one.name).select_one(".admonition-title")
        assert title.get_text().split() == f"Exercise {number} ({one.title})".split()
        solution = pages[page].find(id=f"{one.name}-solution")
        assert solution.select_one(f'.admonition-title a[href="#{one.name}"]')
        assert solution.select_one("details.hide .cell_output"), "it runs"


def test_a_link_to_a_solution_unfolds_it(form):
    seen = form("sum-of-rows")
    computed = seen.page.locator("#sum-of-rows-solution").get_by_text("the sum")
    assert not computed.last.is_visible()
    seen.get_by_role("link", name="Solution in code").click()
    computed.last.wait_for()
    assert not seen.page.locator("#silent-rows-solution details[open]").count()


@pytest.mark.parametrize(
    "kept", ["5", "null", '"right"', '["right"]', '["right", "right", "right"]']
)
def test_outcomes_that_make_no_sense_do_not_stop_the_summary(form, kept):
    seen = form("table-cost")
    seen.evaluate(ANSWER, ["65536", "0"])
    seen.page.evaluate(
        """(kept) => localStorage.setItem("where-a-token-stands/sum-of-rows", `{"outcomes": ${kept}}`)""",
        kept,
    )
    seen.page.reload()
    summary = seen.page.locator(".progress-of-answers")
    right = 1 + (kept == '["right"]')
    assert f"{right} of" in summary.locator(".total").text_content()


def test_what_is_forgotten_in_one_tab_goes_in_the_other(form):
    seen = form("table-cost")
    seen.evaluate(ANSWER, ["65536", "0"])
    other = seen.page.context.new_page()
    other.goto(seen.page.url)
    on_page(other, "table-cost").get_by_role("button", name="Clear").click()
    expect(seen.page.locator("#table-cost-1")).to_have_value("")
    assert says(seen).text_content() == ""


def test_a_browser_that_refuses_to_remember_still_judges(bare):
    page = bare(Exercise("one", "One", "Say.", [COST], ["Hint."], "So.").html())
    refused = "(() => { try { return !localStorage } catch { return true } })()"
    assert page.evaluate(refused), "a page without an address has no storage"
    verdict = ["right", "Right. right cost"]
    assert page.locator("[role=form]").evaluate(ANSWER, ["65536"]) == [verdict]


@pytest.mark.parametrize(
    "kept", ['"text"', "{", '{"given": [1]}', '{"given": [[], {}]}']
)
def test_a_memory_that_makes_no_sense_is_no_harm(form, kept):
    seen = form("table-cost")
    seen.page.evaluate(
        "(kept) => localStorage.setItem('where-a-token-stands/table-cost', kept)", kept
    )
    seen.page.reload()
    assert seen.evaluate(ANSWER, ["65536", "0"])[0][0] == "right"


@EACH_CHAPTER
def test_nothing_of_an_answer_is_seen_before_it_is_asked_for(form, chapter):
    page = form(CHAPTERS[chapter][0].name).page
    source = said_in(page.content())
    for one in CHAPTERS[chapter]:
        shown = page.locator("article").inner_text()
        for text in (*one.hints, one.solution):
            start = said_in(markdown(text)).strip()[:60]
            assert start in source, "else the next line says nothing"
            assert start not in shown
        for answer in one.answers:
            assert said_in(inline(answer.right)) not in shown
            if isinstance(answer, Numbers):
                assert written(answer.value) not in shown
        computed = page.locator(f"#{one.name}-solution").inner_text()
        assert computed.splitlines()[-1].strip() == "Solution in code"

        box = page.locator(f"#{one.name}")
        for n in range(len(one.hints)):
            box.locator("summary").nth(n).click()
        shown = box.inner_text()
        assert said_in(markdown(one.hints[-1])).strip()[:12] in shown
        assert said_in(markdown(one.solution)).strip()[:24] not in shown


@EACH_CHAPTER
def test_axe_finds_nothing_in_what_answers_bring(visit, chapter):
    """Before an answer the exercises are as every page is: see test_accessibility."""
    page = visit(f"chapters/{chapter}.html").page
    boxes = [f"#{one.name}" for one in CHAPTERS[chapter]]
    boxes += [f"#{one.name}-solution" for one in CHAPTERS[chapter]]
    boxes += [".progress-of-answers"] if chapter == "07_exercises" else []
    for n, one in enumerate(CHAPTERS[chapter]):
        given = [
            right_answer(a) if n % 2 else ["", "?"][isinstance(a, Written)]
            for a in one.answers
        ]
        on_page(page, one.name).evaluate(ANSWER, given)
    page.evaluate(
        "document.querySelectorAll('details').forEach((d) => (d.open = true))"
    )
    page.evaluate(SETTLED)
    context = {"include": [[box] for box in boxes]}
    found = axe(page, context)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= DESK
    page.set_viewport_size({"width": PHONE, "height": 900})
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.evaluate(SETTLED)
    found = axe(page, context, **only(*WIDTH_OR_THEME))
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE


def test_a_screen_reader_is_told_what_everything_is(form):
    seen = form("shapes-after-rope")
    seen.evaluate(ANSWER, ["2, 5, 32", "", "x", ["No"]])
    tree = seen.aria_snapshot()
    for line in (
        'textbox "Shape of Q"',
        'textbox "Shape of K"',
        'textbox "Shape of V"',
        'group "Does V change?"',
        'radio "No" [checked]',
        'button "Check"',
        'button "Clear"',
        "Heads and their dimensions are flattened there",
    ):
        assert line in tree, tree
    assert seen.get_attribute("aria-label") == "Shapes after the turn"
    invalid = [
        field.get_attribute("aria-invalid")
        for field in seen.locator("input[type=text]").all()
    ]
    assert invalid == ["true", None, "true"]
    for n in range(4):
        assert says(seen, n).get_attribute("aria-live") == "polite"
    described = seen.locator("input").first.get_attribute("aria-describedby")
    assert "flattened" in seen.page.locator(f"#{described}").text_content()


def test_without_scripts_hints_open_and_fields_make_way(form):
    seen = form("table-cost", java_script_enabled=False)
    assert seen.locator("input:visible, button:visible").count() == 0
    assert seen.get_by_text("Parameters of RoPE").is_visible(), "the question stays"
    note = seen.page.locator("#table-cost noscript p").first
    assert note.is_visible() and "let the page run its script" in note.inner_text()
    seen.locator("summary").first.click()
    assert seen.get_by_text("To what is a row added?").is_visible()


@pytest.mark.rests_on("lib", "tools", "chapters/07_exercises.ipynb")
def test_an_exercise_stored_in_a_notebook_answers_in_nbconvert_s_page(visit, tmp_path):
    chapter = ROOT / "chapters" / "07_exercises.ipynb"
    command = [sys.executable, "-m", "nbconvert", chapter, "--to", "html"]
    command += ["--output-dir", tmp_path, "--output", "page"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    page = visit("page.html", base=tmp_path.as_uri() + "/").page
    form = page.locator(".answers[role=form]").first
    assert form.evaluate(ANSWER, ["16,384", "0"])[0][0] == Outcome.WRONG.value
    assert "as wide as one head" in says(form).text_content()


def test_it_answers_in_a_page_opened_from_the_disk(visit, html):
    page = visit("chapters/07_exercises.html", base=html.as_uri() + "/").page
    form = on_page(page, "table-cost")
    assert form.evaluate(ANSWER, ["2^16", "0"])[1][0] == "right"
