"""Lint and formatting, notebooks included, and types."""

import re
import subprocess
import sys

import pytest

from tests.book import BROWSERS
from tests.chapters import ROOT


@pytest.mark.parametrize("check", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff_finds_nothing(check):
    command = [sys.executable, "-m", "ruff", *check, "--quiet", "."]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_makefile_looks_for_the_browsers_that_the_tests_know():
    makefile = (ROOT / "Makefile").read_text()
    assert f"BROWSERS := {' '.join(BROWSERS)}\n" in makefile


@pytest.mark.rests_on("lib", "tools", "_ext")
def test_mypy_finds_nothing():
    command = [sys.executable, "-m", "mypy", "--no-error-summary"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_no_error_of_a_type_is_ignored_without_a_reason():
    files = [
        path
        for folder in ("lib", "tools", "_ext")
        for path in (ROOT / folder).rglob("*.py")
    ]
    ignored = [
        line
        for path in files
        for line in path.read_text().splitlines()
        if "type: ignore" in line
    ]
    assert [
        line for line in ignored if not re.search(r"ignore\[[\w, -]+\]  # \w", line)
    ] == []
