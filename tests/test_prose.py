"""What the sentences say: every number printed by a cell or cited, and no claim that RoPE extrapolates."""

import re

import pytest

from tests.chapters import NAMES, code_cells, prose

# A number, with or without a unit glued to it; not the digits of a name such as GPT-2 or arXiv:2104.09864v5.
NUMBER = re.compile(r"(?<![\w.\-–])-?(\d[\d,]*(?:\.\d+)?(?:e-?\d+)?)(?!\d)")
NOT_CLAIMS = re.compile(
    r"(?s:```.*?```)"  # code
    r"|^\(.*\)=$|^:::.*$|^:[\w-]+:.*$"  # labels, directives and their options
    r"|^#+ (?:[\d.]+ |Exercise \d)|^\d+\. (?=\*\*)"  # numbers of headings and of lists
    r"|\[[^\]]*\]\([^)]*\)"  # links: their text is a title or a section's number
    r"|\b[Ll]ines? \d+(?:(?: to | and |, )\d+)*(?: of \d+)?"  # places in a source that is cited beside them
    r"|\b[Cc]hapters? \d|\b[Ss]ections? [\d.]+"
    r"|About \d+ minutes",
    re.MULTILINE,
)
CLAIMS_LENGTH = re.compile(
    r"extrapolat|any length|arbitrar\w+ long|unlimited (?:length|context)",
    re.IGNORECASE,
)


def numbers(text: str) -> set[float]:
    return {float(match.rstrip(",").replace(",", "")) for match in NUMBER.findall(text)}


def printed(name: str) -> set[float]:
    """Numbers that a chapter's cells printed, and those that its code names: seeds, sizes, positions asked for."""
    found = set()
    for cell in code_cells(name):
        found |= numbers(cell.source.replace("_", ""))
        for output in cell.outputs:
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            found |= numbers(text)
    return found


def paragraphs(text: str) -> list[str]:
    """Paragraphs, list items and table rows one by one, without what is no claim."""
    parts = re.split(r"\n\s*\n|\n(?=\||- |\d+\. )", NOT_CLAIMS.sub(" ", text))
    return [part.strip() for part in parts if part.strip()]


def unbacked(text: str, known: set[float]) -> dict[float, str]:
    """Numbers in prose that are neither known nor in a paragraph with a citation, with their place."""
    known = known | set(
        map(float, range(10))
    )  # small counts are words written as digits
    return {
        number: part[:80]
        for part in paragraphs(text)
        if "{cite}" not in part
        for number in numbers(part) - known
    }


def unmeasured(text: str) -> list[str]:
    """Paragraphs that speak of long texts without saying what was or was not measured."""
    return [
        part
        for part in paragraphs(text)
        if CLAIMS_LENGTH.search(part)
        and not re.search(r"measure|do not show|claims nor|hypothesis|\{cite\}", part)
    ]


@pytest.mark.parametrize("name", NAMES)
def test_every_number_in_prose_is_printed_or_cited(name):
    text = "\n\n".join(prose(name))
    assert len(paragraphs(text)) > 5
    assert unbacked(text, printed(name)) == {}


@pytest.mark.parametrize("name", NAMES)
def test_no_paragraph_says_extrapolates_without_what_was_measured(name):
    assert unmeasured("\n\n".join(prose(name))) == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("# 1. Title\n\nIt falls by 73.9 percent at 4,096 tokens.", {73.9, 4096.0}),
        ("Twice 73x, or 41ms.", {73.0, 41.0}),
        ("| source | 512 |\n|---|---|\n| other | 3.25 |", {512.0, 3.25}),
        (
            "```python\nx = 77\n```\n\n## 1.1 Title\n\n[chapter 12](07_x.ipynb), lines 141 to 144, GPT-2",
            set(),
        ),
        ("As measured in {cite}`chen2023`: 7.20 at 2,048.", set()),
    ],
)
def test_the_check_finds_invented_numbers_and_leaves_places_alone(text, found):
    assert set(unbacked(text, set())) == found


def test_the_check_finds_a_bare_promise():
    assert unmeasured("# 1. Title\n\nRoPE extrapolates to long texts.")
    assert not unmeasured("Nobody measured that it extrapolates.")
