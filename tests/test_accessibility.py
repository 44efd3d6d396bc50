"""Every page of the built book, read by axe: what a screen reader or a keyboard would stumble over."""

import pytest

from tests.chapters import PAGES
from tests.conftest import axe


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing(visit, path):
    found = axe(visit(path).page)
    assert found.violations_count == 0, found.generate_report()


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_no_faint_colour_in_the_dark(visit, path):
    page = visit(path, theme="dark").page
    found = axe(page, runOnly={"type": "rule", "values": ["color-contrast"]})
    assert found.violations_count == 0, found.generate_report()


def test_axe_sees_a_fault_that_is_made(visit):
    page = visit(PAGES[0]).page
    page.evaluate("document.querySelector('article').append(new Image())")
    assert axe(page).violations_count > 0
