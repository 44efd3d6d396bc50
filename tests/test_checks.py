"""lib/checks.py: what counts as an int, and what as a number."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch

from lib.checks import as_int, as_number


@pytest.mark.parametrize(
    "value", [7, np.int32(7), np.uint8(7), np.array(7), torch.tensor(7)]
)
def test_pythons_numpys_and_torchs_integers_become_an_int(value):
    number = as_int("size", value)
    assert number == 7 and type(number) is int


@pytest.mark.parametrize("value", [-3, 0, 2**80])
def test_an_int_of_any_sign_and_size_passes_when_no_bound_is_given(value):
    assert as_int("size", value) == value


@pytest.mark.parametrize(
    "value, came",
    [
        (True, "True (bool)"),
        (np.True_, "np.True_ (bool)"),
        (7.0, "7.0 (float)"),
        (np.float64(7), "np.float64(7.0) (float64)"),
        ("7", "'7' (str)"),
        (None, "None (NoneType)"),
        ([7], "[7] (list)"),
        (7j, "7j (complex)"),
        (torch.tensor(7.0), "tensor(7.) (Tensor)"),
    ],
)
def test_what_is_no_integer_is_a_type_error(value, came):
    with pytest.raises(TypeError) as caught:
        as_int("size", value)
    assert str(caught.value) == f"size: got {came}, want an int"


@pytest.mark.parametrize(
    "bound, too_small", [(1, 0), (1, -5), (0, -1), (10, np.int64(9))]
)
def test_an_int_below_the_bound_is_a_value_error(bound, too_small):
    assert as_int("size", bound, at_least=bound) == bound
    with pytest.raises(ValueError) as caught:
        as_int("size", too_small, at_least=bound)
    assert str(caught.value) == f"size: got {too_small}, want at least {bound}"


def test_a_wrong_type_is_told_before_a_wrong_size():
    with pytest.raises(TypeError):
        as_int("size", -1.5, at_least=1)


@pytest.mark.parametrize("value", [2, 2.0, np.float32(2), np.int8(2), Fraction(4, 2)])
def test_any_real_number_becomes_a_float(value):
    number = as_number("size", value)
    assert number == 2 and type(number) is float


@pytest.mark.parametrize("value", [True, np.True_, "2", None, [2], 2j, torch.ones(())])
def test_what_is_no_real_number_is_a_type_error(value):
    with pytest.raises(TypeError) as caught:
        as_number("size", value)
    assert str(caught.value) == f"size: got {type(value).__name__}, want a number"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400])
def test_what_no_float_holds_is_a_value_error(value):
    with pytest.raises(ValueError) as caught:
        as_number("size", value)
    assert str(caught.value) == f"size: got {value}, want a finite number"


def test_a_number_may_have_a_lower_bound_that_it_may_or_may_not_touch():
    assert as_number("size", 1, at_least=1) == 1
    for value, bound, want in [
        (0.5, {"at_least": 1}, "at least 1"),
        (0, {"above": 0}, "a number above 0"),
    ]:
        with pytest.raises(ValueError) as caught:
            as_number("size", value, **bound)
        assert str(caught.value) == f"size: got {value}, want {want}"
