"""Argument checks that more than one module needs."""

import math
import operator
from numbers import Real

from torch import Tensor


def as_int(name: str, value: object, at_least: int | None = None) -> int:
    """`value` as an int (NumPy's integers too), or an error that names the argument.

    Raises TypeError when it is no integer (a bool is none) and ValueError when it is below `at_least`.
    """
    try:
        number = None if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]  # caught below
    except TypeError:
        number = None
    if number is None:
        raise TypeError(f"{name}: got {value!r} ({type(value).__name__}), want an int")
    if at_least is not None and number < at_least:
        raise ValueError(f"{name}: got {number}, want at least {at_least}")
    return number


def as_even(name: str, value: object) -> int:
    """`value` as a positive even int, or an error that names the argument; raises as `as_int`."""
    number = as_int(name, value)
    if number <= 0 or number % 2:
        raise ValueError(
            f"{name}: got {number}, want a positive even number, for its dimensions form pairs"
        )
    return number


def as_number(
    name: str,
    value: object,
    at_least: float | None = None,
    above: float | None = None,
) -> float:
    """`value` as a finite float, or an error that names the argument.

    Raises TypeError when it is no real number (a bool is none) and ValueError when it is nan, infinite, below
    `at_least` or not above `above`.
    """
    if isinstance(value, bool) or not isinstance(value, Real):
        raise TypeError(f"{name}: got {type(value).__name__}, want a number")
    try:
        number = float(value)
    except OverflowError:  # an int that no float holds
        number = math.inf
    if not math.isfinite(number):
        raise ValueError(f"{name}: got {value}, want a finite number")
    if at_least is not None and number < at_least:
        raise ValueError(f"{name}: got {value}, want at least {at_least}")
    if above is not None and number <= above:
        raise ValueError(f"{name}: got {value}, want a number above {above}")
    return number


def require_tensor(name: str, value: object) -> None:
    """Raises TypeError, with the argument's name, when `value` is no torch.Tensor."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: got {type(value).__name__}, want a torch.Tensor")


def require_floating(name: str, value: Tensor) -> None:
    """Raises TypeError, with the argument's name, when `value` is no tensor of real floating-point numbers."""
    require_tensor(name, value)
    if not value.is_floating_point():
        raise TypeError(
            f"{name}: got dtype {value.dtype}, want a real floating-point type"
        )


def require_str(name: str, value: object) -> None:
    """Raises TypeError, with the argument's name, when `value` is no str."""
    if not isinstance(value, str):
        raise TypeError(f"{name}: got {type(value).__name__}, want a str")
