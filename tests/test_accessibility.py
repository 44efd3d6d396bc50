"""Every page of the built book, read by axe: what a screen reader or a keyboard would stumble over."""

import pytest
from playwright.sync_api import expect

from tests.chapters import PAGES
from tests.conftest import SETTLED, axe, only

pytestmark = pytest.mark.rests_on("tools")


@pytest.mark.parametrize("path", PAGES)
def test_axe_finds_nothing_by_day_and_no_faint_colour_by_night(visit, path):
    page = visit(path).page
    found = axe(page)
    assert found.violations_count == 0, found.generate_report()
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.evaluate(SETTLED)
    found = axe(page, **only("color-contrast"))
    assert found.violations_count == 0, found.generate_report()


def test_axe_sees_a_fault_that_is_made(visit):
    page = visit(PAGES[0]).page
    page.evaluate("document.querySelector('article').append(new Image())")
    assert axe(page).violations_count > 0
