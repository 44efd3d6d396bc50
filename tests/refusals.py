"""Bad input, refused: what every error must say, and values that are no positive int."""

import pytest

# (value, error, what the message says came)
NO_POSITIVE_INT = [
    (0, ValueError, "0"),
    (-4, ValueError, "-4"),
    (2.5, TypeError, "2.5 (float)"),
    (True, TypeError, "True (bool)"),
    ("10", TypeError, "'10' (str)"),
    (None, TypeError, "None (NoneType)"),
]


def assert_refused(call, error, argument, came):
    """The call raises just this error, whose message says which argument, what came and what is wanted."""
    with pytest.raises(error) as caught:
        call()
    assert caught.type is error
    message = str(caught.value)
    assert message.startswith(f"{argument}: got ") and ", want " in message
    assert came in message.partition(", want ")[0]
