"""lib/absolute.py: the learned table refuses every position outside it, and the fixed sinusoids."""

import math

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from lib.absolute import LearnedPositions, sinusoids
from tests.refusals import NO_POSITIVE_INT, assert_refused

B, T, D, ROWS = 2, 5, 6, 10
U32 = 2.0**-24  # unit roundoff of float32


@pytest.fixture
def table():
    torch.manual_seed(0)
    return LearnedPositions(ROWS, D)


# --- Inside the table -----------------------------------------------------------------------------


def test_the_table_is_one_parameter_of_max_position_times_d_numbers():
    state = LearnedPositions(2048, 32).state_dict()
    assert [weight.shape for weight in state.values()] == [(2048, 32)]
    assert (
        sum(parameter.numel() for parameter in LearnedPositions(1024, 768).parameters())
        == 786_432
    )


def test_the_length_is_the_number_of_rows(table):
    assert len(table) == ROWS


@pytest.mark.parametrize("arguments, std", [({}, 0.01), ({"std": 0.3}, 0.3)])
def test_rows_start_normal_with_the_given_deviation(arguments, std):
    torch.manual_seed(0)
    weight = LearnedPositions(1000, 64, **arguments).weight.double()
    n = weight.numel()
    # Five standard errors each: std / sqrt(n) of the mean, std / sqrt(2 n) of the deviation, sqrt(96 / n) of
    # the mean fourth power, which is 3 for a normal variable (1.8 for a uniform one).
    assert abs(weight.mean().item()) < 5 * std / math.sqrt(n)
    assert abs(weight.std().item() - std) < 5 * std / math.sqrt(2 * n)
    assert abs(((weight / std) ** 4).mean().item() - 3) < 5 * math.sqrt(96 / n)


INSIDE = {
    "an int": (7, 7),
    "0": (0, 0),
    "the last int": (ROWS - 1, 9),
    "a NumPy int": (np.int32(7), 7),
    "a slice": (slice(2, 5), [2, 3, 4]),
    "a slice of NumPy ints": (slice(np.int64(2), np.int64(5)), [2, 3, 4]),
    "a slice without a start": (slice(None, 3), [0, 1, 2]),
    "a slice without a stop": (slice(7, None), [7, 8, 9]),
    "a slice without ends": (slice(None), list(range(ROWS))),
    "a slice to the very end": (slice(8, ROWS), [8, 9]),
    "a slice with a step": (slice(1, 9, 3), [1, 4, 7]),
    "a slice whose step leaps the end": (slice(8, None, 5), [8]),
    "a slice with a huge step": (slice(3, None, 10**30), [3]),
    "a list": ([3, 1, 4, 1], [3, 1, 4, 1]),
    "a list of NumPy ints": (list(np.array([3, 1])), [3, 1]),
    "a tensor without axes": (torch.tensor(7), 7),
    "a tensor": (torch.tensor([9, 0, 9]), [9, 0, 9]),
    "a tensor of rank 2": (
        torch.tensor([[5, 6, 7], [1, 1, 2]]),
        [[5, 6, 7], [1, 1, 2]],
    ),
    "a tensor of rank 3": (torch.tensor([[[8]], [[2]]]), [[[8]], [[2]]]),
}


@pytest.mark.parametrize("index, positions", INSIDE.values(), ids=INSIDE)
def test_every_way_in_gives_the_rows_of_its_positions(table, index, positions):
    expected = F.embedding(torch.tensor(positions), table.weight)
    assert torch.equal(table[index], expected)


@pytest.mark.parametrize(
    "dtype",
    [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint16],
)
def test_positions_may_have_any_integer_dtype(table, dtype):
    assert torch.equal(table[torch.tensor([7, 2], dtype=dtype)], table.weight[[7, 2]])


@pytest.mark.parametrize(
    "index",
    [slice(5, 5), slice(7, 3), slice(0, 0), slice(ROWS, ROWS), slice(ROWS, None)],
)
def test_a_slice_without_positions_is_empty_when_it_starts_in_the_table_or_at_its_end(
    table, index
):
    assert table[index].shape == (0, D)


@pytest.mark.parametrize(
    "index, shape",
    [
        ([], (0, D)),
        (torch.tensor([], dtype=torch.int64), (0, D)),
        (torch.ones(2, 0).int(), (2, 0, D)),
    ],
)
def test_no_positions_give_no_rows(table, index, shape):
    assert table[index].shape == shape


@pytest.mark.parametrize("start_pos", [0, 3, ROWS - T, np.int64(3)])
def test_each_token_gets_the_row_of_its_position_in_every_sequence(table, start_pos):
    x = torch.randn(B, T, D)
    before = x.clone()
    added = table(x, start_pos)
    for b in range(B):
        for t in range(T):
            assert torch.equal(added[b, t], before[b, t] + table.weight[start_pos + t])
    assert torch.equal(x, before)


def test_positions_start_at_0_when_nothing_is_said(table):
    x = torch.randn(B, T, D)
    assert torch.equal(table(x), table(x, start_pos=0))


@pytest.mark.parametrize("batch, tokens", [(0, T), (B, 0)])
def test_an_empty_batch_or_no_tokens_stays_empty(table, batch, tokens):
    assert table(torch.zeros(batch, tokens, D), start_pos=2).shape == (batch, tokens, D)


@pytest.mark.parametrize(
    "rows, counts",
    [
        (lambda table: table[4], {4: 1}),
        (lambda table: table[2:5], {2: 1, 3: 1, 4: 1}),
        (lambda table: table[[3, 8, 3]], {3: 2, 8: 1}),
        (lambda table: table[torch.tensor([[0, 9], [9, 9]])], {0: 1, 9: 3}),
        (lambda table: table(torch.zeros(B, 3, D), start_pos=6), {6: B, 7: B, 8: B}),
    ],
)
def test_the_gradient_reaches_only_the_rows_that_were_looked_up(table, rows, counts):
    rows(table).sum().backward()
    expected = torch.tensor(
        [counts.get(position, 0) for position in range(ROWS)]
    ).float()
    assert torch.equal(table.weight.grad, expected[:, None].expand(ROWS, D))


# --- Outside the table ----------------------------------------------------------------------------

OUTSIDE = {
    "one past the end": (lambda table: table[10], 10),
    "far past the end": (lambda table: table[100], 100),
    "a NumPy int": (lambda table: table[np.int64(10)], 10),
    "past any int64": (lambda table: table[2**70], 2**70),
    "-1, which would be the last row": (lambda table: table[-1], -1),
    "far below": (lambda table: table[-(2**70)], -(2**70)),
    "a list, one of it": (lambda table: table[[3, 12, 4]], 12),
    "a list with -1": (lambda table: table[[3, -1]], -1),
    "a list past any int64": (lambda table: table[[2**70]], 2**70),
    "a tensor without axes": (lambda table: table[torch.tensor(10)], 10),
    "a tensor, one of it": (lambda table: table[torch.tensor([[0, 9], [10, 9]])], 10),
    "a tensor with -1": (lambda table: table[torch.tensor([0, -1])], -1),
    "a tensor of a small dtype": (
        lambda table: table[torch.tensor([200], dtype=torch.uint8)],
        200,
    ),
    "a tensor at int64's end": (
        lambda table: table[torch.tensor([2**63 - 1])],
        2**63 - 1,
    ),
    "a slice half outside": (lambda table: table[8:13], 10),
    "a slice with one row left": (lambda table: table[9:14], 10),
    "a slice wholly outside": (lambda table: table[100:105], 100),
    "a slice from the end": (lambda table: table[10:11], 10),
    "a slice one too long": (lambda table: table[:11], 10),
    "a slice with a step over the end": (lambda table: table[7:14:2], 11),
    "a slice too large for memory": (lambda table: table[0 : 10**13], 10),
    "a slice past any int64": (lambda table: table[0 : 10**30 : 10**25], 10**25),
    "a slice that starts outside, open": (lambda table: table[11:], 11),
    "a slice that starts past any int64": (lambda table: table[2**70 :], 2**70),
    "an empty slice outside": (lambda table: table[20:20], 20),
    "a backward slice outside": (lambda table: table[20:15], 20),
    "a slice from -1": (lambda table: table[-1:], -1),
    "a slice to -1": (lambda table: table[:-1], -1),
    "an empty slice below": (lambda table: table[-3:-3], -3),
    "tokens one past the end": (
        lambda table: table(torch.zeros(B, T, D), start_pos=6),
        10,
    ),
    "tokens, one row left": (
        lambda table: table(torch.zeros(B, T, D), start_pos=9),
        10,
    ),
    "tokens wholly outside": (
        lambda table: table(torch.zeros(B, T, D), start_pos=100),
        100,
    ),
    "too many tokens": (lambda table: table(torch.zeros(B, 11, D)), 10),
    "tokens from -1": (lambda table: table(torch.zeros(B, T, D), start_pos=-1), -1),
    "tokens from -T to 0": (
        lambda table: table(torch.zeros(B, T, D), start_pos=-T),
        -T,
    ),
    "tokens past any int64": (
        lambda table: table(torch.zeros(B, T, D), start_pos=2**70),
        2**70,
    ),
    "no tokens, outside": (lambda table: table(torch.zeros(B, 0, D), start_pos=30), 30),
}


@pytest.mark.parametrize("look_up, position", OUTSIDE.values(), ids=OUTSIDE)
def test_a_position_outside_the_table_is_one_index_error_whatever_the_way_in(
    table, look_up, position
):
    with pytest.raises(IndexError) as caught:
        look_up(table)
    assert caught.type is IndexError
    assert (
        str(caught.value)
        == f"position {position} is outside the table, which has 10 rows: 0 to 9"
    )


def test_the_error_names_the_size_of_this_table():
    with pytest.raises(
        IndexError, match=r"^position 3 is outside the table, which has 3 rows: 0 to 2$"
    ):
        LearnedPositions(3, 2)[3]


# --- What is no position --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "index, argument, came",
    [
        (True, "index", "True (bool)"),
        (1.0, "index", "1.0 (float)"),
        ("1", "index", "'1' (str)"),
        (None, "index", "None (NoneType)"),
        (..., "index", "Ellipsis (ellipsis)"),
        ((1, 2), "index", "(1, 2) (tuple)"),
        ([1, True], "index", "True (bool)"),
        ([1, 2.0], "index", "2.0 (float)"),
        ([[1, 2]], "index", "[1, 2] (list)"),
        (torch.tensor([1.0]), "index", "torch.float32"),
        (torch.tensor([1j]), "index", "torch.complex64"),
        (torch.ones(ROWS, dtype=torch.bool), "index", "torch.bool"),
        (slice(1.0, 2), "slice start", "1.0 (float)"),
        (slice(0, "2"), "slice stop", "'2' (str)"),
        (slice(0, 2, 0.5), "slice step", "0.5 (float)"),
        (slice(False, 2), "slice start", "False (bool)"),
    ],
    ids=str,
)
def test_an_index_that_is_no_position_is_a_type_error(table, index, argument, came):
    assert_refused(lambda: table[index], TypeError, argument, came)


@pytest.mark.parametrize("step", [0, -1])
def test_a_slice_must_step_forward(table, step):
    assert_refused(lambda: table[::step], ValueError, "slice step", str(step))


@pytest.mark.parametrize(
    "start_pos, came",
    [
        (1.0, "1.0 (float)"),
        (True, "True (bool)"),
        (None, "None (NoneType)"),
        ([1], "[1] (list)"),
    ],
)
def test_a_start_that_is_no_position_is_a_type_error(table, start_pos, came):
    assert_refused(
        lambda: table(torch.zeros(B, T, D), start_pos), TypeError, "start_pos", came
    )


@pytest.mark.parametrize(
    "x, error, came",
    [
        ([[1.0]], TypeError, "list"),
        (np.zeros((B, T, D)), TypeError, "ndarray"),
        (torch.zeros(T, D), ValueError, "[5, 6]"),
        (torch.zeros(1, B, T, D), ValueError, "[1, 2, 5, 6]"),
        (torch.zeros(B, T, D + 1), ValueError, "[2, 5, 7]"),
        (torch.zeros(B, T, 1), ValueError, "[2, 5, 1]"),
        (torch.zeros(B, T, D, dtype=torch.int64), TypeError, "torch.int64"),
        (torch.zeros(B, T, D, dtype=torch.complex64), TypeError, "torch.complex64"),
    ],
)
def test_tokens_must_be_vectors_of_the_tables_width(table, x, error, came):
    assert_refused(lambda: table(x), error, "x", came)


@pytest.mark.parametrize("size, error, came", NO_POSITIVE_INT)
def test_a_table_has_a_positive_int_of_rows_and_columns(size, error, came):
    assert_refused(lambda: LearnedPositions(size, D), error, "max_position", came)
    assert_refused(lambda: LearnedPositions(ROWS, size), error, "d", came)


# --- Sinusoids ------------------------------------------------------------------------------------


def random_positions(n):
    return np.random.default_rng(0).uniform(-1000, 1000, n)


@pytest.mark.parametrize(
    "d, base", [(2, 10_000.0), (6, 10_000.0), (32, 10_000.0), (6, 50.0)]
)
def test_sinusoids_are_the_formula_of_the_paper(d, base):
    positions = random_positions(7)
    expected = [
        [(math.sin, math.cos)[j % 2](m / base ** (2 * (j // 2) / d)) for j in range(d)]
        for m in positions
    ]
    vectors = sinusoids(positions, d, base)
    assert vectors.dtype == torch.float32
    # Rounding to float32 is off by u / 2 below 1; angles below 1000 in float64 add less than 1e-12.
    torch.testing.assert_close(
        vectors.double(), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=U32
    )


def test_sinusoids_take_the_lessons_base_and_positions_of_any_shape():
    positions = torch.tensor([[3, 900, 41], [7, 5, 12]])
    vectors = sinusoids(positions, D)
    assert vectors.shape == (2, 3, D)
    assert torch.equal(vectors, sinusoids(positions, D, base=10_000.0))
    torch.testing.assert_close(vectors[1, 2], sinusoids(12, D), rtol=0, atol=U32)


def test_the_dot_product_of_two_sinusoids_depends_only_on_their_offset():
    positions, d = random_positions(50), 32
    here, there = (sinusoids(positions + shift, d).double() for shift in (0, 12.25))
    expected = sum(math.cos(12.25 / 10_000 ** (2 * i / d)) for i in range(d // 2))
    # Each of the d terms multiplies two numbers of at most 1, u / 2 off each; float64 adds less than 1 %.
    torch.testing.assert_close(
        (here * there).sum(-1),
        torch.full((50,), expected, dtype=torch.float64),
        rtol=0,
        atol=d * 1.01 * U32,
    )


def test_sinusoids_turn_as_the_rotation_does():
    # (sin a, cos a) of a pair as cos a + i sin a: the same numbers that rotate queries and keys.
    vectors = sinusoids([3, 50, 700], 8)
    turns = torch.complex(vectors[:, 1::2], vectors[:, 0::2])
    expected = [
        [complex(math.cos(m * f), math.sin(m * f)) for f in (1, 0.1, 0.01, 0.001)]
        for m in (3, 50, 700)
    ]
    torch.testing.assert_close(
        turns.to(torch.complex128),
        torch.tensor(expected, dtype=torch.complex128),
        rtol=0,
        atol=U32,
    )


@pytest.mark.parametrize(
    "positions, d, error",
    [
        ("abc", 8, TypeError),
        ([math.nan], 8, ValueError),
        (3, 7, ValueError),
        (3, 0, ValueError),
        (3, 8.0, TypeError),
    ],
)
def test_sinusoids_refuse_what_has_no_angle(positions, d, error):
    with pytest.raises(error, match=r": got .*, want "):
        sinusoids(positions, d)
