"""lib/shapes.py: the sizes that every chapter traces, and the line that prints a shape."""

import numpy as np
import pytest
import torch

from lib import shapes
from lib.shapes import trace


def test_the_sizes_are_the_lessons():
    assert (shapes.B, shapes.T, shapes.h, shapes.d_head, shapes.d, shapes.V) == (
        2,
        5,
        4,
        8,
        32,
        100,
    )


def test_the_heads_share_the_width_without_remainder():
    assert shapes.d == shapes.h * shapes.d_head


def test_a_trace_is_one_line_of_name_shape_and_meaning_in_columns(capsys):
    trace("x", torch.zeros(2, 5, 32), "token vectors")
    trace("positions", torch.zeros(5), "one per token")
    assert capsys.readouterr().out.splitlines() == [
        "x                     [2, 5, 32]        token vectors",
        "positions             [5]               one per token",
    ]


def test_a_trace_without_a_meaning_ends_after_the_shape(capsys):
    trace("loss", torch.tensor(0.0))
    assert capsys.readouterr().out == "loss                  []\n"


def test_a_trace_answers_nothing_that_a_cell_would_show():
    assert trace("x", torch.zeros(1)) is None


@pytest.mark.parametrize("value", [[1, 2], np.zeros(3), None, torch.Size([2, 5])])
def test_only_a_tensor_can_be_traced(value, capsys):
    with pytest.raises(TypeError) as caught:
        trace("x", value)
    assert (
        str(caught.value) == f"tensor: got {type(value).__name__}, want a torch.Tensor"
    )
    assert capsys.readouterr().out == ""
