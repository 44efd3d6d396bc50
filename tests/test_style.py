"""Lint and formatting, notebooks included."""

import subprocess
import sys

import pytest

from tests.chapters import ROOT


@pytest.mark.parametrize("check", [["check"], ["format", "--check"]], ids=" ".join)
def test_ruff_finds_nothing(check):
    command = [sys.executable, "-m", "ruff", *check, "--quiet", "."]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
