"""What the sentences say: every number printed by a cell or cited, and no claim that RoPE extrapolates."""

import re

import pytest

from tests.chapters import NAMES, code_cells, prose, texts

NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?![\w])")
NOT_CLAIMS = re.compile(
    r"```.*?```"  # code
    r"|^#.*$|^\(.*\)=$|^:::.*$|^:class:.*$"  # headings, labels, directives
    r"|\]\([^)]*\)"  # targets of links
    r"|lines? \d+(?:(?: to | and |, )\d+)*"  # places in a source that is cited where it is introduced
    r"|[Cc]hapters? \[?\d|[Ss]ections? [\d.]+|Exercise \d",
    re.DOTALL | re.MULTILINE,
)


def numbers(text: str) -> set[float]:
    return {float(match.rstrip(",").replace(",", "")) for match in NUMBER.findall(text)}


def printed(name: str) -> set[float]:
    """Numbers in a chapter's code and in what its cells printed."""
    found = set()
    for cell in code_cells(name):
        found |= numbers(cell.source.replace("_", ""))
        for text in texts(cell):
            found |= numbers(text)
    return found


def paragraphs(name: str) -> list[str]:
    """Paragraphs, and table rows one by one, without what is no claim."""
    text = NOT_CLAIMS.sub(" ", "\n\n".join(prose(name)))
    return [part for part in re.split(r"\n\s*\n|\n(?=\|)", text) if part.strip()]


@pytest.mark.parametrize("name", NAMES)
def test_every_number_in_prose_is_printed_or_cited(name):
    known = printed(name) | set(
        map(float, range(10))
    )  # small counts are words written as digits
    unknown = {
        number: part.strip()[:80]
        for part in paragraphs(name)
        if "{cite}" not in part
        for number in numbers(part) - known
    }
    assert not unknown


@pytest.mark.parametrize("name", NAMES)
def test_no_paragraph_says_extrapolates_without_what_was_measured(name):
    for part in paragraphs(name):
        if re.search(r"extrapolat", part, re.IGNORECASE):
            assert re.search(r"measure|\bshow\b|\{cite\}", part), part


def test_an_invented_number_would_be_found():
    assert numbers("It falls to 73.91 at 4,096 tokens.") == {73.91, 4096.0}
    assert not numbers(
        NOT_CLAIMS.sub(" ", "## 1.1 Title\n[chapter](07_x.ipynb), lines 141 to 144")
    )
