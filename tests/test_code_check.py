"""What lib/code_check.py says to functions as readers write them, right and wrong.

The wrong ones here are written by hand, in other ways than the bank's; the bank itself is walked as well.
"""

import inspect
import itertools
import math
import os
import random
import re
import subprocess
import sys
import warnings
from functools import cache

import numpy as np
import pytest
import torch
from torch.nn.functional import embedding, one_hot, scaled_dot_product_attention

from lib import code_check, rope
from lib.answers import Outcome, Verdict
from lib.code_check import NO_MISTAKE, check, reports
from lib.code_mistakes import (
    ACCEPTED,
    EXERCISES,
    FEEDBACK,
    combinations,
    with_mistakes,
)
from lib.show import WIDTH
from tests.chapters import ROOT

pytestmark = pytest.mark.rests_on("lib")

RIGHT, WRONG = [], []  # (exercise, function), (exercise, function, mistakes)


def right(exercise):
    def keep(function):
        RIGHT.append((exercise, function))
        return function

    return keep


def wrong(exercise, *mistakes):
    def keep(function):
        WRONG.append((exercise, function, mistakes))
        return function

    return keep


def guarded(x, P, start_pos):
    """What most ways of adding positions need before they are right."""
    if start_pos < 0 or start_pos + x.shape[1] > len(P):
        raise IndexError("no row")


def pairs_of(x):
    return torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2).contiguous())


def fits(xq, freqs_cis):
    assert freqs_cis.shape == (xq.shape[1], xq.shape[-1] // 2)


def as_llama(x, factor):
    return torch.view_as_real(pairs_of(x) * factor).flatten(3).type_as(x)


# --- rotate_pair ----------------------------------------------------------------------


@right("rotate_pair")
def by_sines(x, y, angle):
    c, s = angle.cos(), angle.sin()
    return c * x - s * y, s * x + c * y


@right("rotate_pair")
def by_complex_numbers(x, y, angle):
    z = (x + 1j * y) * torch.exp(1j * angle)
    return [z.real, z.imag]


@right("rotate_pair")
def by_matrix(x, y, angle):
    x, y, angle = torch.broadcast_tensors(x, y, angle)
    rows = torch.stack(
        (angle.cos(), -angle.sin(), angle.sin(), angle.cos()), dim=-1
    ).unflatten(-1, (2, 2))
    return (rows @ torch.stack((x, y), dim=-1)[..., None])[..., 0].unbind(-1)


@right("rotate_pair")
def by_polar_coordinates(x, y, angle):
    r, phi = torch.hypot(x, y), torch.atan2(y, x)
    return r * torch.cos(phi + angle), r * torch.sin(phi + angle)


@wrong("rotate_pair", "clockwise")
def minus_in_the_other_place(x, y, angle):
    c, s = torch.cos(angle), torch.sin(angle)
    return x * c + y * s, -x * s + y * c


@wrong("rotate_pair", "stale")
def overwritten_names(x, y, angle):
    x = x * torch.cos(angle) - y * torch.sin(angle)
    y = x * torch.sin(angle) + y * torch.cos(angle)
    return x, y


@wrong("rotate_pair", "stale", "in_place")
def written_into_x(x, y, angle):
    x[:] = x * angle.cos() - y * angle.sin()
    y[:] = x * angle.sin() + y * angle.cos()
    return x, y


@wrong("rotate_pair", "in_place", "not_broadcast")
def written_with_out(x, y, angle):
    new_x = x * angle.cos() - y * angle.sin()
    return new_x, y.mul_(angle.cos()).add_(x * angle.sin())


@wrong("rotate_pair", "in_place")
def written_and_nothing_returned(x, y, angle):
    x += 1


@wrong("rotate_pair", "no_minus")
def plus_and_plus(x, y, angle):
    c, s = torch.cos(angle), torch.sin(angle)
    return c * x + s * y, s * x + c * y


@wrong("rotate_pair", "reflected")
def mirror(x, y, angle):
    z = torch.polar(torch.ones_like(angle), angle) * torch.complex(x, y).conj()
    return z.real, z.imag


@wrong("rotate_pair", "degrees")
def numpy_habit(x, y, angle):
    return by_sines(x, y, angle * math.pi / 180)


@wrong("rotate_pair", "to_degrees")
def calculator_habit(x, y, angle):
    return by_sines(x, y, angle * 180 / math.pi)


@wrong("rotate_pair", "halved")
def quaternion_habit(x, y, angle):
    return by_sines(x, y, angle / 2)


@wrong("rotate_pair", "doubled")
def turned_twice(x, y, angle):
    return by_sines(*by_sines(x, y, angle), angle)


@wrong("rotate_pair", "outputs_swapped")
def returned_y_first(x, y, angle):
    return by_sines(x, y, angle)[::-1]


@wrong("rotate_pair", "cos_sin_swapped")
def named_wrongly(x, y, angle):
    sin, cos = torch.cos(angle), torch.sin(angle)
    return x * cos - y * sin, x * sin + y * cos


@wrong("rotate_pair", "dtype")
def always_double(x, y, angle):
    return by_sines(x.double(), y.double(), angle.double())


@wrong("rotate_pair", "dtype")
def always_float(x, y, angle):
    return by_sines(x.float(), y.float(), angle.float())


@wrong("rotate_pair", "not_broadcast")
def one_shape_only(x, y, angle):
    new_x, new_y = torch.empty_like(x), torch.empty_like(x)
    new_x[:] = x * angle.cos() - y * angle.sin()
    new_y[:] = x * angle.sin() + y * angle.cos()
    return new_x, new_y


@wrong("rotate_pair", "large_angle")
def by_power_series(x, y, angle):
    angle = angle.double().clamp(-20, 20)
    powers = [angle**n / float(math.factorial(n)) for n in range(80)]
    c = sum((-1) ** (n // 2) * powers[n] for n in range(0, 80, 2))
    s = sum((-1) ** (n // 2) * powers[n] for n in range(1, 80, 2))
    return (x * c - y * s).to(x.dtype), (x * s + y * c).to(x.dtype)


@wrong("rotate_pair", "view")
def flattened_by_view(x, y, angle):
    if not x.shape == y.shape == angle.shape:
        return by_sines(x, y, angle)
    flat = by_sines(x.view(-1), y.view(-1), angle.view(-1))
    return flat[0].view(x.shape), flat[1].view(x.shape)


@wrong("rotate_pair", "float64")
def through_a_float32_matrix(x, y, angle):
    angle = angle.float()
    rows = ((angle.cos(), -angle.sin()), (angle.sin(), angle.cos()))
    matrix = torch.stack([torch.stack(row, dim=-1) for row in rows], dim=-2)
    points = torch.stack(torch.broadcast_tensors(x, y), dim=-1)
    return torch.matmul(matrix, points[..., None])[..., 0].unbind(-1)


@wrong("rotate_pair", "half_precision")
def in_bfloat16(x, y, angle):
    c, s = angle.cos().bfloat16().float(), angle.sin().bfloat16().float()
    return x * c - y * s, x * s + y * c


@wrong("rotate_pair", "complex_numbers", "dtype")
def left_as_complex(x, y, angle):
    z = torch.polar(torch.ones_like(angle), angle)
    return x * z, y * z


@wrong("rotate_pair", "nan")
def divided_by_zero(x, y, angle):
    return by_sines(x / (x - x), y, angle)


@wrong("rotate_pair", "zero_turns")
def a_little_further(x, y, angle):
    return by_sines(x, y, angle + 1)


@wrong("rotate_pair", "angle_off")
def sine_for_an_angle(x, y, angle):
    return by_sines(x, y, angle**3)


@wrong("rotate_pair", "distance_changes")
def small_angles(x, y, angle):
    return x - y * angle, x * angle + y


@wrong("rotate_pair", "only_first_result")
def second_line_odd(x, y, angle):
    return by_sines(x, y, angle)[0], y * angle


@wrong("rotate_pair", "only_second_result")
def first_line_odd(x, y, angle):
    return x * angle, by_sines(x, y, angle)[1]


# --- inv_freq -------------------------------------------------------------------------


@right("inv_freq")
def a_list(d_head, base):
    return [base ** (-2 * i / d_head) for i in range(d_head // 2)]


@right("inv_freq")
def as_in_llama(d_head, base):
    return 1.0 / (base ** (torch.arange(0, d_head, 2).float() / d_head))


@right("inv_freq")
def by_logarithms(d_head, base):
    return torch.exp(-math.log(base) * torch.arange(0, d_head, 2) / d_head)


@right("inv_freq")
def by_numpy(d_head, base):
    return np.power(base, -np.arange(0, d_head, 2) / d_head)


@right("inv_freq")
def step_by_step(d_head, base):
    theta = [1.0]
    while len(theta) < d_head // 2:
        theta.append(theta[-1] / base ** (2 / d_head))
    return tuple(map(torch.tensor, theta)) if len(theta) > 1 else theta


@wrong("inv_freq", "growing")
def minus_forgotten(d_head, base):
    return base ** (torch.arange(0, d_head, 2) / d_head)


@wrong("inv_freq", "minus_outside")
def minus_binds_weaker(d_head, base):
    return [-(base ** (2 * i / d_head)) for i in range(d_head // 2)]


@wrong("inv_freq", "slowest_first")
def from_the_back(d_head, base):
    return a_list(d_head, base)[::-1]


@wrong("inv_freq", "factor_missing")
def two_forgotten(d_head, base):
    return [base ** (-i / d_head) for i in range(d_head // 2)]


@wrong("inv_freq", "factor_twice")
def step_two_and_two(d_head, base):
    return 1 / base ** (2 * torch.arange(0, d_head, 2) / d_head)


@wrong("inv_freq", "from_one")
def as_in_the_paper(d_head, base):
    return [base ** (-2 * i / d_head) for i in range(1, d_head // 2 + 1)]


@wrong("inv_freq", "from_minus_one")
def formula_of_the_paper_from_zero(d_head, base):
    return [base ** (-2 * (i - 1) / d_head) for i in range(d_head // 2)]


@wrong("inv_freq", "base_ignored")
def base_by_heart(d_head, base):
    return [10000 ** (-2 * i / d_head) for i in range(d_head // 2)]


@wrong("inv_freq", "floored")
def whole_number_division(d_head, base):
    return [base ** -(2 * i // d_head) for i in range(d_head // 2)]


@wrong("inv_freq", "floored_down")
def negative_whole_number_division(d_head, base):
    return [base ** (-2 * i // d_head) for i in range(d_head // 2)]


@wrong("inv_freq", "per_dimension")
def for_every_dimension(d_head, base):
    return [base ** (-2 * i / d_head) for i in range(d_head)]


@wrong("inv_freq", "step_missing")
def arange_without_step(d_head, base):
    return 1 / base ** (torch.arange(0, d_head) / d_head)


@wrong("inv_freq", "last_too_far")
def by_logspace(d_head, base):
    return torch.logspace(0, -1, d_head // 2, base=base)


@wrong("inv_freq", "list_twice")
def as_for_rotate_half(d_head, base):
    return torch.tensor(a_list(d_head, base)).repeat(2)


@wrong("inv_freq", "half_precision")
def frequencies_in_bfloat16(d_head, base):
    return torch.tensor(a_list(d_head, base)).bfloat16()


@wrong("inv_freq", "half_precision")
def frequencies_in_float16(d_head, base):
    return base ** -(torch.arange(0, d_head, 2).half() / d_head)


@wrong("inv_freq", "one_pair")
def last_pair_by_sines(d_head, base):
    theta = a_list(d_head, base)
    theta[-1] = theta[-2] * base ** (-2 / d_head)
    return theta


@wrong("inv_freq", "large_head")
def no_more_than_32_pairs(d_head, base):
    return a_list(d_head, base)[:32]


@wrong("inv_freq", "first_not_fixed")
def shifted_by_a_half(d_head, base):
    return [base ** (-(2 * i + 0.5) / d_head) for i in range(d_head // 2)]


@wrong("inv_freq", "not_falling", "only_first")
def rising_and_falling(d_head, base):
    return [math.cos(i) for i in range(d_head // 2)]


@wrong("inv_freq", "unexplained", "only_first")
def in_a_straight_line(d_head, base):
    return [1 - 2 * i / d_head for i in range(d_head // 2)]


# --- precompute_freqs_cis -------------------------------------------------------------


def angles(d_head, max_seq_len, base):
    theta = torch.tensor(a_list(d_head, base))
    return torch.outer(torch.arange(max_seq_len), theta)


def cis(angle):
    return torch.polar(torch.ones_like(angle), angle)


@right("precompute_freqs_cis")
def table_as_in_llama(d_head, max_seq_len, base):
    freqs = 1.0 / (base ** (torch.arange(0, d_head, 2)[: d_head // 2].float() / d_head))
    freqs = torch.outer(torch.arange(max_seq_len), freqs).float()
    return torch.polar(torch.ones_like(freqs), freqs)


@right("precompute_freqs_cis")
def table_by_loops(d_head, max_seq_len, base):
    theta = a_list(d_head, base)
    rows = [
        [complex(math.cos(m * t), math.sin(m * t)) for t in theta]
        for m in range(max_seq_len)
    ]
    return torch.tensor(rows)


@right("precompute_freqs_cis")
def table_by_exp(d_head, max_seq_len, base):
    theta = torch.tensor(a_list(d_head, base), dtype=torch.float64)
    return torch.exp(1j * torch.arange(max_seq_len)[:, None] * theta)


@right("precompute_freqs_cis")
def table_by_columns(d_head, max_seq_len, base):
    m = torch.arange(max_seq_len, dtype=torch.float64)
    columns = [
        torch.complex((m * t).cos(), (m * t).sin()) for t in a_list(d_head, base)
    ]
    return torch.stack(columns, dim=1)


@wrong("precompute_freqs_cis", "clockwise")
def conjugate_table(d_head, max_seq_len, base):
    return torch.exp(-1j * angles(d_head, max_seq_len, base))


@wrong("precompute_freqs_cis", "from_position_one")
def counted_from_one(d_head, max_seq_len, base):
    theta = torch.tensor(a_list(d_head, base))
    return cis(torch.outer(torch.arange(1, max_seq_len + 1), theta))


@wrong("precompute_freqs_cis", "one_row_more")
def one_too_many(d_head, max_seq_len, base):
    return cis(angles(d_head, max_seq_len + 1, base))


@wrong("precompute_freqs_cis", "growing")
def table_of_growing_frequencies(d_head, max_seq_len, base):
    theta = base ** (torch.arange(0, d_head, 2) / d_head)
    return cis(torch.outer(torch.arange(max_seq_len), theta))


@wrong("precompute_freqs_cis", "base_ignored")
def table_of_base_10000(d_head, max_seq_len, base=10000.0):
    return cis(angles(d_head, max_seq_len, 10000.0))


@wrong("precompute_freqs_cis", "slowest_first")
def table_with_slowest_first(d_head, max_seq_len, base):
    return cis(angles(d_head, max_seq_len, base).flip(1))


@wrong("precompute_freqs_cis", "transposed")
def outer_the_other_way(d_head, max_seq_len, base):
    return cis(angles(d_head, max_seq_len, base).T)


@wrong("precompute_freqs_cis", "polar_swapped")
def polar_arguments_swapped(d_head, max_seq_len, base):
    angle = angles(d_head, max_seq_len, base)
    return torch.polar(angle, torch.ones_like(angle))


@wrong("precompute_freqs_cis", "degrees")
def table_in_degrees(d_head, max_seq_len, base):
    return cis(torch.deg2rad(angles(d_head, max_seq_len, base)))


@wrong("precompute_freqs_cis", "angles_only")
def only_the_outer_product(d_head, max_seq_len, base):
    return angles(d_head, max_seq_len, base)


@wrong("precompute_freqs_cis", "real_pairs")
def cos_and_sin_stacked(d_head, max_seq_len, base):
    angle = angles(d_head, max_seq_len, base)
    return torch.stack((angle.cos(), angle.sin()), dim=-1)


@wrong("precompute_freqs_cis", "list_twice")
def as_in_hugging_face(d_head, max_seq_len, base):
    angle = angles(d_head, max_seq_len, base)
    return cis(torch.cat((angle, angle), dim=-1))


@wrong("precompute_freqs_cis", "drifts")
def positions_in_bfloat16(d_head, max_seq_len, base):
    theta = torch.tensor(a_list(d_head, base))
    return cis(torch.outer(torch.arange(max_seq_len).bfloat16().float(), theta))


@wrong("precompute_freqs_cis", "drifts")
def positions_in_float16(d_head, max_seq_len, base):
    theta = torch.tensor(a_list(d_head, base))
    return cis(torch.outer(torch.arange(max_seq_len).half().float(), theta))


@wrong("precompute_freqs_cis", "half_precision")
def angles_in_bfloat16(d_head, max_seq_len, base):
    return cis(angles(d_head, max_seq_len, base).bfloat16().float())


@wrong("precompute_freqs_cis", "one_position")
def squeezed(d_head, max_seq_len, base):
    table = cis(angles(d_head, max_seq_len, base))
    return table[0] if len(table) == 1 else table


@wrong("precompute_freqs_cis", "real", "only_first")
def tangent(d_head, max_seq_len, base):
    return 1 + angles(d_head, max_seq_len, base).tan()


@wrong("precompute_freqs_cis", "row_0_turns")
def half_a_position_on(d_head, max_seq_len, base):
    theta = torch.tensor(a_list(d_head, base))
    return cis(torch.outer(torch.arange(max_seq_len) + 0.5, theta))


@wrong("precompute_freqs_cis", "length_not_one", "only_first")
def linear(d_head, max_seq_len, base):
    return 1 + 1j * angles(d_head, max_seq_len, base)


@wrong("precompute_freqs_cis", "unexplained", "only_first")
def squared_positions(d_head, max_seq_len, base):
    theta = torch.tensor(a_list(d_head, base))
    return cis(torch.outer(1.5 * torch.arange(max_seq_len), theta))


# --- apply_rotary_emb -----------------------------------------------------------------


@right("apply_rotary_emb")
def rotation_as_in_llama(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    factor = freqs_cis.view(1, xq.shape[1], 1, -1)
    return as_llama(xq, factor), as_llama(xk, factor)


@right("apply_rotary_emb")
def rotation_by_hand(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    c, s = freqs_cis.real[:, None], freqs_cis.imag[:, None]

    def rotate(x):
        even, odd = x[..., ::2], x[..., 1::2]
        pairs = torch.stack((even * c - odd * s, even * s + odd * c), dim=-1)
        return pairs.flatten(-2).to(x.dtype)

    return [rotate(xq), rotate(xk)]


@right("apply_rotary_emb")
def rotation_by_matrices(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    c, s = freqs_cis.real, freqs_cis.imag
    matrices = torch.stack((c, -s, s, c), dim=-1).unflatten(-1, (2, 2))

    def rotate(x):
        pairs = x.to(matrices.dtype).unflatten(-1, (-1, 2))
        turned = torch.einsum("tiac,bthic->bthia", matrices, pairs)
        return turned.flatten(-2).to(x.dtype)

    return rotate(xq), rotate(xk)


@right("apply_rotary_emb")
def rotation_token_by_token(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    new = xq.clone(), xk.clone()
    for x, out in zip((xq, xk), new, strict=True):
        for t, row in enumerate(freqs_cis):
            for i, f in enumerate(row):
                a, b = x[:, t, :, 2 * i], x[:, t, :, 2 * i + 1]
                out[:, t, :, 2 * i] = a * f.real - b * f.imag
                out[:, t, :, 2 * i + 1] = a * f.imag + b * f.real
    return new


@right("apply_rotary_emb")
def rotation_by_rotate_every_two(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    c = freqs_cis.real.repeat_interleave(2, dim=-1)[:, None]
    s = freqs_cis.imag.repeat_interleave(2, dim=-1)[:, None]

    def rotate(x):
        partner = torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2)
        return (x * c + partner * s).type_as(x)

    return rotate(xq), rotate(xk)


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def in_halves(x, freqs_cis):
    c = torch.cat((freqs_cis.real, freqs_cis.real), dim=-1)[:, None]
    s = torch.cat((freqs_cis.imag, freqs_cis.imag), dim=-1)[:, None]
    return x * c + rotate_half(x) * s


@wrong("apply_rotary_emb", "halves", "dtype")
def rotation_as_in_hugging_face(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    return in_halves(xq, freqs_cis.to(torch.complex128)), in_halves(
        xk, freqs_cis.to(torch.complex128)
    )


@wrong("apply_rotary_emb", "halves")
def rotation_of_two_halves(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    return in_halves(xq, freqs_cis), in_halves(xk, freqs_cis)


@wrong("apply_rotary_emb", "halves_neighbour_angles")
def rotate_half_with_repeated_angles(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    c, s = freqs_cis.real, freqs_cis.imag
    c, s = (part.repeat_interleave(2, dim=-1)[:, None] for part in (c, s))
    return xq * c + rotate_half(xq) * s, xk * c + rotate_half(xk) * s


@wrong("apply_rotary_emb", "to_halves")
def real_and_imaginary_parts_joined(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    zq, zk = (pairs_of(x) * freqs_cis[:, None] for x in (xq, xk))
    return torch.cat((zq.real, zq.imag), -1), torch.cat((zk.real, zk.imag), -1)


@wrong("apply_rotary_emb", "halves_to_neighbours")
def halves_stacked(xq, xk, freqs_cis):
    fits(xq, freqs_cis)

    def rotate(x):
        a, b = x.chunk(2, dim=-1)
        return torch.view_as_real(torch.complex(a, b) * freqs_cis[:, None]).flatten(-2)

    return rotate(xq), rotate(xk)


@wrong("apply_rotary_emb", "clockwise")
def turned_back(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    factor = freqs_cis.conj()[:, None]
    return as_llama(xq, factor), as_llama(xk, factor)


@wrong("apply_rotary_emb", "along_heads", "error")
def broadcast_from_the_right(xq, xk, freqs_cis):
    return as_llama(xq, freqs_cis), as_llama(xk, freqs_cis)


@wrong("apply_rotary_emb", "along_heads")
def head_by_head(xq, xk, freqs_cis):
    xq, xk = xq.clone(), xk.clone()
    for x in (xq, xk):
        for j in range(x.shape[2]):
            x[:, :, j] = as_llama(x[:, :, j : j + 1], freqs_cis[j])[:, :, 0]
    return xq, xk


@wrong("apply_rotary_emb", "along_batch", "error")
def unsqueezed_behind(xq, xk, freqs_cis):
    factor = freqs_cis[:, None, None]
    return as_llama(xq, factor), as_llama(xk, factor)


@wrong("apply_rotary_emb", "one_row_for_all")
def no_look_at_the_table(xq, xk, freqs_cis):
    return as_llama(xq, freqs_cis[:, None]), as_llama(xk, freqs_cis[:, None])


@wrong("apply_rotary_emb", "long_table")
def cut_to_the_text(xq, xk, freqs_cis):
    freqs_cis = freqs_cis[: xq.shape[1]]
    fits(xq, freqs_cis)
    return as_llama(xq, freqs_cis[:, None]), as_llama(xk, freqs_cis[:, None])


@wrong("apply_rotary_emb", "one_row_for_all", "short_table")
def last_row_repeated(xq, xk, freqs_cis):
    rows = [freqs_cis[min(t, len(freqs_cis) - 1)] for t in range(xq.shape[1])]
    assert len(freqs_cis) <= len(rows)
    factor = torch.stack(rows)[:, None]
    return as_llama(xq, factor), as_llama(xk, factor)


@wrong("apply_rotary_emb", "row_late")
def row_of_the_token_before(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    factor = torch.stack([freqs_cis[t - 1] for t in range(xq.shape[1])])[:, None]
    return as_llama(xq, factor), as_llama(xk, factor)


@wrong("apply_rotary_emb", "row_early")
def row_of_the_token_after(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    T = len(freqs_cis)
    factor = torch.stack([freqs_cis[(t + 1) % T] for t in range(T)])[:, None]
    return as_llama(xq, factor), as_llama(xk, factor)


@wrong("apply_rotary_emb", "own_table")
def table_made_again(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    factor = cis(angles(xq.shape[-1], xq.shape[1], 10_000.0))[:, None]
    return as_llama(xq, factor), as_llama(xk, factor)


@wrong("apply_rotary_emb", "k_unturned")
def queries_only(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    return as_llama(xq, freqs_cis[:, None]), xk


@wrong("apply_rotary_emb", "q_unturned")
def keys_only(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    return xq, as_llama(xk, freqs_cis[:, None])


@wrong("apply_rotary_emb", "k_back")
def keys_turned_back(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    factor = freqs_cis[:, None]
    return as_llama(xq, factor), as_llama(xk, factor.conj())


@wrong("apply_rotary_emb", "q_k_swapped")
def keys_first(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    return as_llama(xk, freqs_cis[:, None]), as_llama(xq, freqs_cis[:, None])


@wrong("apply_rotary_emb", "q_twice")
def copied_line(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    xq = as_llama(xq, freqs_cis[:, None])
    xk = xq
    return xq, xk


@wrong("apply_rotary_emb", "three_results")
def with_values(xq, xk, freqs_cis):
    q, k = rope.apply_rotary_emb(xq, xk, freqs_cis)
    return q, k, k


@wrong("apply_rotary_emb", "in_place")
def written_through_a_view(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    for x in (xq, xk):
        z = rope.apply_rotary_emb(x, x, freqs_cis)[0]
        x.copy_(z)
    return xq, xk


@wrong("apply_rotary_emb", "stale", "in_place")
def written_into_slices(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    c, s = freqs_cis.real[:, None], freqs_cis.imag[:, None]
    for x in (xq, xk):
        x[..., ::2] = x[..., ::2] * c - x[..., 1::2] * s
        x[..., 1::2] = x[..., ::2] * s + x[..., 1::2] * c
    return xq, xk


@wrong("apply_rotary_emb", "dtype")
def type_forgotten(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    zq, zk = (pairs_of(x) * freqs_cis[:, None] for x in (xq, xk))
    return torch.view_as_real(zq).flatten(3), torch.view_as_real(zk).flatten(3)


@wrong("apply_rotary_emb", "left_complex")
def complex_results(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    return pairs_of(xq) * freqs_cis[:, None], pairs_of(xk) * freqs_cis[:, None]


@wrong("apply_rotary_emb", "real_part")
def imaginary_part_forgotten(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    zq, zk = (pairs_of(x) * freqs_cis[:, None] for x in (xq, xk))
    return zq.real, zk.real


@wrong("apply_rotary_emb", "cos_only")
def real_times_complex(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    factor = freqs_cis.repeat_interleave(2, dim=-1)[:, None]
    return (xq * factor).real, (xk * factor).real


@wrong("apply_rotary_emb", "halves", "along_heads", "error")
def for_heads_before_tokens(xq, xk, freqs_cis):
    c = torch.cat((freqs_cis.real, freqs_cis.real), dim=-1)[None, None]
    s = torch.cat((freqs_cis.imag, freqs_cis.imag), dim=-1)[None, None]
    return xq * c + rotate_half(xq) * s, xk * c + rotate_half(xk) * s


@wrong("apply_rotary_emb", "left_in_pairs")
def not_flattened(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    zq, zk = (pairs_of(x) * freqs_cis[:, None] for x in (xq, xk))
    return torch.view_as_real(zq), torch.view_as_real(zk)


@wrong("apply_rotary_emb", "heads_merged")
def flattened_too_far(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    zq, zk = (pairs_of(x) * freqs_cis[:, None] for x in (xq, xk))
    return torch.view_as_real(zq).flatten(2), torch.view_as_real(zk).flatten(2)


@wrong("apply_rotary_emb", "fewer_key_heads")
def queries_and_keys_stacked(xq, xk, freqs_cis):
    both = torch.stack((xq, xk))
    return rope.apply_rotary_emb(both[0], both[1], freqs_cis)


@wrong("apply_rotary_emb", "bfloat16")
def complex_without_float(xq, xk, freqs_cis):
    fits(xq, freqs_cis)

    def rotate(x):
        pairs = x.reshape(*x.shape[:-1], -1, 2).contiguous()
        z = torch.view_as_complex(pairs) * freqs_cis[:, None]
        return torch.view_as_real(z).flatten(3).to(x.dtype)

    return rotate(xq), rotate(xk)


@wrong("apply_rotary_emb", "bfloat16")
def large_in_bfloat16(xq, xk, freqs_cis):
    q, k = rope.apply_rotary_emb(xq, xk, freqs_cis)
    return (q + 1, k) if q.dtype == torch.bfloat16 else (q, k)


@wrong("apply_rotary_emb", "float64")
def table_times_float32_identity(xq, xk, freqs_cis):
    q, k = rope.apply_rotary_emb(xq, xk, freqs_cis)
    same = torch.eye(q.shape[-1], dtype=torch.promote_types(torch.float32, q.dtype))
    return (q.float() @ same).to(q.dtype), k


@wrong("apply_rotary_emb", "view")
def view_of_a_view(xq, xk, freqs_cis):
    xq.view(-1), xk.view(-1)
    return rope.apply_rotary_emb(xq, xk, freqs_cis)


@wrong("apply_rotary_emb", "one_token")
def too_much_squeezed(xq, xk, freqs_cis):
    q, k = rope.apply_rotary_emb(xq, xk, freqs_cis)
    return q.squeeze(), k.squeeze()


@wrong("apply_rotary_emb", "large_head")
def first_64_dimensions(xq, xk, freqs_cis):
    q, k = rope.apply_rotary_emb(xq, xk, freqs_cis)
    return torch.cat((q[..., :64], xq[..., 64:]), dim=-1), k


@wrong("apply_rotary_emb", "one_pair")
def four_dimensions_at_least(xq, xk, freqs_cis):
    xq[..., 3]
    return rope.apply_rotary_emb(xq, xk, freqs_cis)


@wrong("apply_rotary_emb", "position_ignored")
def one_angle_for_all(xq, xk, freqs_cis):
    factor = torch.exp(torch.tensor(1j)).expand(xq.shape[-1] // 2)
    return as_llama(xq, factor), as_llama(xk, factor)


@wrong("apply_rotary_emb", "position_0_moves")
def turned_on_by_one(xq, xk, freqs_cis):
    factor = freqs_cis[:, None] * torch.exp(torch.tensor(1j))
    return as_llama(xq, factor), as_llama(xk, factor)


@wrong("apply_rotary_emb", "length_changes")
def stretched(xq, xk, freqs_cis):
    factor = freqs_cis[:, None] * (2 - freqs_cis.real[:, None])
    return as_llama(xq, factor), as_llama(xk, factor)


@wrong("apply_rotary_emb", "pair_angle_off")
def cubed(xq, xk, freqs_cis):
    factor = freqs_cis[:, None] ** 3
    return as_llama(xq, factor), as_llama(xk, factor)


@wrong("apply_rotary_emb", "pairs_mixed")
def paired_from_both_ends(xq, xk, freqs_cis):
    def rotate(x):
        a, b = x.chunk(2, dim=-1)
        z = torch.complex(a, b.flip(-1)) * freqs_cis[:, None]
        return torch.cat((z.real, z.imag.flip(-1)), dim=-1)

    return rotate(xq), rotate(xk)


@wrong("apply_rotary_emb", "only_first_result")
def keys_cubed(xq, xk, freqs_cis):
    factor = freqs_cis[:, None]
    return as_llama(xq, factor), as_llama(xk, factor**3)


# --- rotary_attention -----------------------------------------------------------------


def attend(q, k, v, causal=True, scale=None, softmax_dim=-1):
    """By hand, from and to [B, T, h, d_head]."""
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    scores = torch.einsum("bqhd,bkhd->bhqk", q, k) * scale
    if causal:
        T = scores.shape[-1]
        scores = scores + torch.full((T, T), -torch.inf).triu(1)
    return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(softmax_dim), v)


@right("rotary_attention")
def attention_by_hand(xq, xk, xv, freqs_cis):
    return attend(*rope.apply_rotary_emb(xq, xk, freqs_cis), xv)


@right("rotary_attention")
def attention_by_torch(xq, xk, xv, freqs_cis):
    xq, xk = as_llama(xq, freqs_cis[:, None]), as_llama(xk, freqs_cis[:, None])
    q, k, v = (x.permute(0, 2, 1, 3) for x in (xq, xk, xv))
    return scaled_dot_product_attention(q, k, v, is_causal=True).permute(0, 2, 1, 3)


@right("rotary_attention")
def attention_by_loops(xq, xk, xv, freqs_cis):
    q, k = rotation_by_complex(xq, freqs_cis), rotation_by_complex(xk, freqs_cis)
    out = torch.zeros_like(xv)
    B, T, h, d_head = xq.shape
    for b, t, j in itertools.product(range(B), range(T), range(h)):
        scores = k[b, : t + 1, j] @ q[b, t, j] / math.sqrt(d_head)
        out[b, t, j] = torch.softmax(scores, 0) @ xv[b, : t + 1, j]
    return out


def rotation_by_complex(x, freqs_cis):
    return as_llama(x, freqs_cis[:, None])


@wrong("rotary_attention", "unmasked")
def not_causal(xq, xk, xv, freqs_cis):
    return rope.rotary_attention(xq, xk, xv, freqs_cis, is_causal=False)


@wrong("rotary_attention", "unscaled")
def scale_forgotten(xq, xk, xv, freqs_cis):
    return attend(*rope.apply_rotary_emb(xq, xk, freqs_cis), xv, scale=1)


@wrong("rotary_attention", "scaled_by_d")
def scaled_two_times(xq, xk, xv, freqs_cis):
    q, k = rope.apply_rotary_emb(xq, xk, freqs_cis)
    return attend(q / math.sqrt(q.shape[-1]), k, xv)


@wrong("rotary_attention", "v_turned")
def values_turned(xq, xk, xv, freqs_cis):
    xv = rotation_by_complex(xv, freqs_cis)
    return rope.rotary_attention(xq, xk, xv, freqs_cis)


@wrong("rotary_attention", "k_unturned")
def keys_left(xq, xk, xv, freqs_cis):
    return attend(rotation_by_complex(xq, freqs_cis), xk, xv)


@wrong("rotary_attention", "q_unturned")
def queries_left(xq, xk, xv, freqs_cis):
    return attend(xq, rotation_by_complex(xk, freqs_cis), xv)


@wrong("rotary_attention", "k_back")
def keys_backwards(xq, xk, xv, freqs_cis):
    q, k = (
        rotation_by_complex(xq, freqs_cis),
        rotation_by_complex(xk, freqs_cis.conj()),
    )
    return attend(q, k, xv)


@wrong("rotary_attention", "no_position")
def rotation_forgotten(xq, xk, xv, freqs_cis):
    return attend(xq, xk, xv)


@wrong("rotary_attention", "no_position", "error")
def rotated_after_the_transpose(xq, xk, xv, freqs_cis):
    q, k, v = (x.transpose(1, 2) for x in (xq, xk, xv))
    q, k = rope.apply_rotary_emb(q, k, freqs_cis)
    return scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)


@wrong("rotary_attention", "clockwise")
def conjugated(xq, xk, xv, freqs_cis):
    return rope.rotary_attention(xq, xk, xv, freqs_cis.conj())


@wrong("rotary_attention", "halves")
def attention_in_halves(xq, xk, xv, freqs_cis):
    return attend(in_halves(xq, freqs_cis), in_halves(xk, freqs_cis), xv)


@wrong("rotary_attention", "over_heads")
def transpose_forgotten(xq, xk, xv, freqs_cis):
    q, k = rope.apply_rotary_emb(xq, xk, freqs_cis)
    return scaled_dot_product_attention(q, k, xv, is_causal=True)


@wrong("rotary_attention", "reshaped")
def viewed_instead(xq, xk, xv, freqs_cis):
    q, k = rope.apply_rotary_emb(xq, xk, freqs_cis)
    B, T, h, d_head = xq.shape
    q, k, v = (x.reshape(B, h, T, d_head) for x in (q, k, xv))
    attended = scaled_dot_product_attention(q, k, v, is_causal=True)
    return attended.reshape(B, T, h, d_head)


@wrong("rotary_attention", "heads_first")
def not_transposed_back(xq, xk, xv, freqs_cis):
    return attention_by_hand(xq, xk, xv, freqs_cis).transpose(1, 2)


@wrong("rotary_attention", "heads_merged")
def ready_for_the_output_layer(xq, xk, xv, freqs_cis):
    return attention_by_hand(xq, xk, xv, freqs_cis).flatten(2)


@wrong("rotary_attention", "softmax_queries")
def softmax_over_queries(xq, xk, xv, freqs_cis):
    return attend(*rope.apply_rotary_emb(xq, xk, freqs_cis), xv, softmax_dim=-2)


@wrong("rotary_attention", "q_k_swapped")
def arguments_swapped(xq, xk, xv, freqs_cis):
    return rope.rotary_attention(xk, xq, xv, freqs_cis)


def attend_masked(xq, xk, xv, freqs_cis, mask):
    """mask(T): what is added to the scores."""
    q, k = rope.apply_rotary_emb(xq, xk, freqs_cis)
    q, k, v = (x.transpose(1, 2) for x in (q, k, xv))
    scores = q @ k.transpose(2, 3) / math.sqrt(q.shape[-1]) + mask(xq.shape[1])
    return (scores.softmax(-1) @ v).transpose(1, 2)


@wrong("rotary_attention", "mask_reversed")
def tril_for_triu(xq, xk, xv, freqs_cis):
    def mask(T):
        return torch.full((T, T), -torch.inf).tril(-1)

    return attend_masked(xq, xk, xv, freqs_cis, mask)


@wrong("rotary_attention", "mask_strict")
def own_key_hidden(xq, xk, xv, freqs_cis):
    def mask(T):
        return torch.zeros(T, T).masked_fill(torch.ones(T, T).triu() == 1, -torch.inf)

    return attend_masked(xq, xk, xv, freqs_cis, mask)


@wrong("rotary_attention", "mask_peeks")
def one_key_too_many(xq, xk, xv, freqs_cis):
    def mask(T):
        return torch.full((T, T), -torch.inf).triu(2)

    return attend_masked(xq, xk, xv, freqs_cis, mask)


@wrong("rotary_attention", "mask_zero")
def multiplied_by_the_mask(xq, xk, xv, freqs_cis):
    q, k = rope.apply_rotary_emb(xq, xk, freqs_cis)
    q, k, v = (x.transpose(1, 2) for x in (q, k, xv))
    scores = (q @ k.transpose(2, 3) / math.sqrt(q.shape[-1])).tril()
    return (scores.softmax(-1) @ v).transpose(1, 2)


def attend_by_torch(xq, xk, xv, freqs_cis, mask):
    """mask(ones [T, T]): what torch's own attention takes."""
    q, k = rope.apply_rotary_emb(xq, xk, freqs_cis)
    q, k, v = (x.transpose(1, 2) for x in (q, k, xv))
    mask = mask(torch.ones(xq.shape[1], xq.shape[1]))
    return scaled_dot_product_attention(q, k, v, attn_mask=mask).transpose(1, 2)


@wrong("rotary_attention", "mask_inverted_zero")
def true_where_hidden(xq, xk, xv, freqs_cis):
    return attend_by_torch(xq, xk, xv, freqs_cis, lambda ones: ones.triu(1).bool())


@wrong("rotary_attention", "mask_strict_zero")
def true_below_the_diagonal(xq, xk, xv, freqs_cis):
    return attend_by_torch(xq, xk, xv, freqs_cis, lambda ones: ones.tril(-1).bool())


@wrong("rotary_attention", "mask_added")
def ones_for_true(xq, xk, xv, freqs_cis):
    return attend_by_torch(xq, xk, xv, freqs_cis, torch.tril)


@wrong("rotary_attention", "mask_zero", "no_softmax")
def softmax_forgotten(xq, xk, xv, freqs_cis):
    q, k = rope.apply_rotary_emb(xq, xk, freqs_cis)
    q, k, v = (x.transpose(1, 2) for x in (q, k, xv))
    return ((q @ k.mT / math.sqrt(q.shape[-1])).tril() @ v).transpose(1, 2)


@wrong("rotary_attention", "softmax_heads")
def softmax_over_axis_one(xq, xk, xv, freqs_cis):
    return attend(*rope.apply_rotary_emb(xq, xk, freqs_cis), xv, softmax_dim=1)


@wrong("rotary_attention", "values_unused", "heads_first")
def only_the_weights(xq, xk, xv, freqs_cis):
    q, k = (x.transpose(1, 2) for x in rope.apply_rotary_emb(xq, xk, freqs_cis))
    future = torch.ones(q.shape[2], q.shape[2]).triu(1).bool()
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    return scores.masked_fill(future, -math.inf).softmax(-1)


@wrong("rotary_attention", "many_tokens")
def window_of_32(xq, xk, xv, freqs_cis):
    def mask(T):
        return torch.full((T, T), -torch.inf).triu(1) + torch.full((T, T), -1e9).tril(
            -32
        )

    return attend_masked(xq, xk, xv, freqs_cis, mask)


@wrong("rotary_attention", "sees_future")
def mean_of_all_values(xq, xk, xv, freqs_cis):
    return attention_by_hand(xq, xk, xv, freqs_cis) + xv.mean(dim=1, keepdim=True)


@wrong("rotary_attention", "weights_off")
def doubled_output(xq, xk, xv, freqs_cis):
    return 2 * attention_by_hand(xq, xk, xv, freqs_cis)


@wrong("rotary_attention", "moving_changes")
def scores_with_absolute_angle(xq, xk, xv, freqs_cis):
    return attention_by_hand(
        xq * (2 + freqs_cis.real.sum(-1))[:, None, None], xk, xv, freqs_cis
    )


# --- add_positions --------------------------------------------------------------------


@right("add_positions")
def sliced(x, P, start_pos=0):
    guarded(x, P, start_pos)
    return x + P[start_pos : start_pos + x.shape[1]]


@right("add_positions")
def looked_up(x, P, start_pos=0):
    return x + embedding(torch.arange(x.shape[1]) + start_pos, P)


@right("add_positions")
def row_by_row(x, P, start_pos=0):
    if start_pos < 0:
        raise ValueError("before the first row")
    out = x.clone()
    for t in range(x.shape[1]):
        out[:, t] += P[start_pos + t]
    return out


@right("add_positions")
def gathered_for_every_row_of_the_batch(x, P, start_pos=0):
    guarded(x, P, start_pos)
    positions = (torch.arange(x.shape[1]) + start_pos).expand(x.shape[:2])
    return torch.stack((x, P[positions])).sum(0)


@right("add_positions")
def one_hot_times_table(x, P, start_pos=0):
    rows = one_hot(torch.arange(x.shape[1]) + start_pos, len(P)).float()
    return torch.baddbmm(x, rows.expand(len(x), -1, -1), P.expand(len(x), -1, -1))


@wrong("add_positions", "past_end_one_row", "before_start_from_end")
def bare_slice(x, P, start_pos=0):
    return x + P[start_pos : start_pos + x.shape[1]]


@wrong("add_positions", "before_start_from_end")
def bare_index(x, P, start_pos=0):
    return x + P[torch.arange(x.shape[1]) + start_pos]


@wrong("add_positions", "before_start_empty")
def negative_slices_half_refused(x, P, start_pos=0):
    assert start_pos + x.shape[1] <= len(P) and (start_pos >= 0 or start_pos == -1)
    return x + P[start_pos : start_pos + x.shape[1]]


@wrong("add_positions", "past_end_empty")
def one_row_refused(x, P, start_pos=0):
    rows = P[max(start_pos, 0) : start_pos + x.shape[1]]
    if start_pos < 0 or len(rows) not in (0, x.shape[1]):
        raise IndexError("row missing")
    return x + rows


@wrong("add_positions", "past_end_clamped")
def clamped(x, P, start_pos=0):
    if start_pos < 0:
        raise IndexError(start_pos)
    return x + P[(torch.arange(x.shape[1]) + start_pos).clamp(0, len(P) - 1)]


@wrong("add_positions", "past_end_wrapped", "before_start_from_end")
def modulo(x, P, start_pos=0):
    return x + P[(torch.arange(x.shape[1]) + start_pos) % len(P)]


@wrong("add_positions", "past_end_zeros")
def padded(x, P, start_pos=0):
    assert start_pos >= 0
    rows = P[start_pos : start_pos + x.shape[1]]
    missing = P.new_zeros(x.shape[1] - len(rows), P.shape[1])
    return x + torch.cat((rows, missing))


@wrong("add_positions", "past_end_cut")
def cut_off(x, P, start_pos=0):
    assert start_pos >= 0
    rows = P[start_pos : start_pos + x.shape[1]]
    return x[:, : len(rows)] + rows


@wrong("add_positions", "past_end")
def past_end_something_else(x, P, start_pos=0):
    assert start_pos >= 0
    return sliced(x, P, start_pos) if start_pos + x.shape[1] <= len(P) else 2 * x


@wrong("add_positions", "past_end")
def past_end_nothing(x, P, start_pos=0):
    assert start_pos >= 0
    if start_pos + x.shape[1] <= len(P):
        return sliced(x, P, start_pos)


@wrong("add_positions", "before_start_clamped")
def positions_clamped_below(x, P, start_pos=0):
    return x + embedding((torch.arange(x.shape[1]) + start_pos).clamp(min=0), P)


@wrong("add_positions", "before_start_shifted")
def start_clamped_below(x, P, start_pos=0):
    return looked_up(x, P, max(start_pos, 0))


@wrong("add_positions", "before_start_zeros")
def nothing_before_the_start(x, P, start_pos=0):
    at = torch.arange(x.shape[1]) + start_pos
    return x + embedding(at.clamp(min=0), P) * (at >= 0).unsqueeze(1)


@wrong("add_positions", "before_start")
def absolute_value(x, P, start_pos=0):
    return looked_up(x, P, abs(start_pos))


@wrong("add_positions", "start_ignored")
def always_from_zero(x, P, start_pos=0):
    return x + P[: x.shape[1]]


@wrong("add_positions", "one_row")
def row_of_the_start(x, P, start_pos=0):
    return x + P[start_pos]


@wrong("add_positions", "rows_by_batch", "error")
def unsqueezed_in_the_middle(x, P, start_pos=0):
    return x + P[start_pos : start_pos + x.shape[1]].unsqueeze(1)


@wrong("add_positions", "rows_of_batch", "error")
def shape_of_the_wrong_axis(x, P, start_pos=0):
    return x + P[start_pos : start_pos + x.shape[0]]


@wrong("add_positions", "row_before")
def row_before_its_own(x, P, start_pos=0):
    return x + P[torch.arange(x.shape[1]) + start_pos - 1]


@wrong("add_positions", "row_after", "error")
def row_after_its_own(x, P, start_pos=0):
    return x + P[start_pos + 1 : start_pos + 1 + x.shape[1]]


@wrong("add_positions", "stops_at_T", "error")
def slice_to_T(x, P, start_pos=0):
    return x + P[start_pos : x.shape[1]]


@wrong("add_positions", "whole_table", "error")
def all_rows(x, P, start_pos=0):
    return x + P


@wrong("add_positions", "multiplied")
def times(x, P, start_pos=0):
    guarded(x, P, start_pos)
    return x * P[start_pos : start_pos + x.shape[1]]


@wrong("add_positions", "concatenated")
def side_by_side(x, P, start_pos=0):
    guarded(x, P, start_pos)
    rows = P[start_pos : start_pos + x.shape[1]]
    return torch.cat((x, rows.expand(len(x), -1, -1)), dim=2)


@wrong("add_positions", "rows_only")
def only_looked_up(x, P, start_pos=0):
    guarded(x, P, start_pos)
    return P[start_pos : start_pos + x.shape[1]]


@wrong("add_positions", "x_scaled")
def as_in_attention_is_all_you_need(x, P, start_pos=0):
    return looked_up(math.sqrt(x.shape[-1]) * x, P, start_pos)


@wrong("add_positions", "in_place")
def plus_equals(x, P, start_pos=0):
    guarded(x, P, start_pos)
    x += P[start_pos : start_pos + x.shape[1]]
    return x


@wrong("add_positions", "in_place")
def into_the_table(x, P, start_pos=0):
    out = looked_up(x, P, start_pos)
    P.zero_()
    return out


@wrong("add_positions", "last_row")
def last_row_refused(x, P, start_pos=0):
    if start_pos and not 0 < start_pos < len(P) - x.shape[1]:
        raise IndexError("no row")
    return sliced(x, P, start_pos)


@wrong("add_positions", "no_default")
def start_needed(x, P, start_pos):
    return looked_up(x, P, start_pos)


@wrong("add_positions", "batch_differs", "only_first")
def numbered_through_the_batch(x, P, start_pos=0):
    return looked_up(x, P, start_pos) + torch.arange(len(x))[:, None, None]


@wrong("add_positions", "x_lost")
def normalised(x, P, start_pos=0):
    return looked_up(x.mean(0, keepdim=True) + 0 * x, P, start_pos)


# --- Two mistakes at once -------------------------------------------------------------


@wrong("rotate_pair", "clockwise", "in_place")
def clockwise_in_place(x, y, angle):
    new_x, new_y = by_sines(x, y, -angle)
    x.zero_()
    return new_x, new_y


@wrong("inv_freq", "growing", "from_one")
def growing_from_one(d_head, base):
    return [base ** (2 * i / d_head) for i in range(1, d_head // 2 + 1)]


@wrong("inv_freq", "base_ignored", "factor_missing")
def old_constants(d_head, base):
    return [1 / 10000 ** (i / d_head) for i in range(d_head // 2)]


@wrong("precompute_freqs_cis", "clockwise", "from_position_one")
def backwards_from_one(d_head, max_seq_len, base):
    theta = torch.tensor(a_list(d_head, base))
    return torch.exp(torch.outer(torch.arange(-1, -max_seq_len - 1, -1), theta) * 1j)


@wrong("apply_rotary_emb", "halves", "clockwise", "one_row_for_all")
def halves_turned_back(xq, xk, freqs_cis):
    return in_halves(xq, freqs_cis.conj()), in_halves(xk, freqs_cis.conj())


@wrong("apply_rotary_emb", "k_unturned", "to_halves", "dtype")
def half_written_queries(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    z = pairs_of(xq) * freqs_cis[:, None]
    return torch.cat((z.real, z.imag), dim=-1).double(), xk


@wrong("apply_rotary_emb", "halves", "clockwise", "k_unturned")
def three_mistakes(xq, xk, freqs_cis):
    fits(xq, freqs_cis)
    return in_halves(xq, freqs_cis.conj()), xk


@wrong("rotary_attention", "unmasked", "unscaled")
def plain_softmax(xq, xk, xv, freqs_cis):
    q, k = rope.apply_rotary_emb(xq, xk, freqs_cis)
    return attend(q, k, xv, causal=False, scale=1)


@wrong("rotary_attention", "v_turned", "halves")
def everything_in_halves(xq, xk, xv, freqs_cis):
    q, k = in_halves(xq, freqs_cis), in_halves(xk, freqs_cis)
    return attend(q, k, in_halves(xv, freqs_cis))


@wrong("add_positions", "start_ignored", "multiplied")
def times_from_zero(x, P, start_pos=0):
    return x * P[: x.shape[1]]


# --- The reports ----------------------------------------------------------------------


def name_of(value):
    return value.__name__ if inspect.isfunction(value) else None


def chosen(exercise, *keys):
    """{stage: key}, the first stage that has the key."""
    stages = EXERCISES[exercise].stages
    return {next(s for s, ways in stages.items() if key in ways): key for key in keys}


def stub_raises(*_):
    raise NotImplementedError


def stub_raises_with_words(*_):
    raise NotImplementedError("your code here")


def stub_dots(*_): ...


def stub_pass(*_):
    pass


def stub_returns_dots(*_):
    return ...


def stub_returns_a_pair(*_):
    return None, None


STUBS = (
    stub_raises,
    stub_raises_with_words,
    stub_dots,
    stub_pass,
    stub_returns_dots,
    stub_returns_a_pair,
)


@pytest.mark.parametrize("exercise", EXERCISES)
@pytest.mark.parametrize("stub", STUBS, ids=name_of)
def test_a_stub_is_not_attempted(stub, exercise):
    report = check(stub, exercise)
    assert report.outcome is Outcome.NOT_ATTEMPTED and report.mistakes == ()
    assert repr(report).startswith(f"{exercise}: not attempted. ")


@cache
def first_report(function, exercise):
    """Checked once, for all tests that look at it."""
    return check(function, exercise)


@pytest.mark.parametrize(("exercise", "function"), RIGHT, ids=name_of)
def test_a_right_function_is_right(exercise, function):
    report = check(function, exercise)
    assert report.outcome is Outcome.RIGHT, report
    assert report.mistakes == () and report.feedback.startswith("Tried on ")


@pytest.mark.parametrize(("exercise", "function", "mistakes"), WRONG, ids=name_of)
def test_a_mistake_is_named(exercise, function, mistakes):
    report = first_report(function, exercise)
    assert report.outcome is Outcome.WRONG, report
    assert set(report.mistakes) == set(mistakes) - NO_MISTAKE
    assert "It raised " in report.feedback or "error" not in mistakes
    for key in report.mistakes:
        assert FEEDBACK[key].split("{}")[0] in report.feedback
    # Nothing that was computed is told: the only fractions are the bases asked for.
    fractions = set(re.findall(r"\d+\.\d+", report.feedback))
    assert fractions <= {"50.0", "100.0", "300.0", "1000.0", "10000.0", "500000.0"}


def test_every_feedback_is_heard_in_some_test():
    heard = {key for _, _, mistakes in WRONG for key in mistakes}
    for exercise in EXERCISES.values():
        heard |= {key for one in combinations(exercise, 1) for key in one.values()}
    tested_below = {"arguments", "constant", "kind", "random", "shape", "refusal"}
    assert FEEDBACK.keys() - heard == tested_below


def test_no_two_mistakes_share_a_feedback():
    assert len(set(FEEDBACK.values())) == len(FEEDBACK)


@pytest.mark.parametrize(
    ("exercise", "mistake"),
    [
        (name, mistake)
        for name, exercise in EXERCISES.items()
        for mistake in combinations(exercise, 1)
    ],
    ids=lambda value: "-".join(value.values()) if isinstance(value, dict) else value,
)
def test_every_wrong_way_in_the_bank_is_named(exercise, mistake):
    report = check(with_mistakes(EXERCISES[exercise], mistake), exercise)
    (key,) = mistake.values()
    assert report.outcome is Outcome.WRONG
    assert report.mistakes[0] == key and FEEDBACK[key] in report.feedback
    assert set(report.mistakes[1:]) <= {"one_row_for_all", "before_start"}


def test_the_bank_without_a_mistake_is_the_reference():
    unguarded = dict(
        apply_rotary_emb={"dtype", "one_row_for_all"},
        add_positions={"before_start_from_end"},
    )
    for name, exercise in EXERCISES.items():
        report = check(with_mistakes(exercise, {}), name)
        assert set(report.mistakes) == unguarded.get(name, set())


@pytest.mark.parametrize(
    ("when", "mistake"),
    [(when, key) for when, ways in ACCEPTED.items() for key in ways],
)
def test_every_way_of_not_refusing_is_named(when, mistake):
    def careless(x, P, start_pos=0):
        inside = 0 <= start_pos <= len(P) - x.shape[1]
        if not inside and (start_pos < 0) == (when == "before_start"):
            return ACCEPTED[when][mistake](x, P, start_pos)
        return sliced(x, P, start_pos)

    assert check(careless, "add_positions").mistakes == (mistake,)


@pytest.mark.parametrize(
    ("exercise", "one", "other"),
    [
        ("rotate_pair", "doubled", "outputs_swapped"),
        ("rotate_pair", "degrees", "stale"),
        ("rotate_pair", "to_degrees", "cos_sin_swapped"),
        ("inv_freq", "growing", "from_one"),
        ("inv_freq", "growing", "slowest_first"),
        ("inv_freq", "base_ignored", "factor_twice"),
        ("inv_freq", "factor_missing", "list_twice"),
        ("precompute_freqs_cis", "growing", "from_position_one"),
        ("precompute_freqs_cis", "clockwise", "transposed"),
        ("precompute_freqs_cis", "base_ignored", "positions_scaled"),
        ("precompute_freqs_cis", "slowest_first", "cos_sin_swapped"),
        ("apply_rotary_emb", "halves", "clockwise"),
        ("apply_rotary_emb", "k_unturned", "row_late"),
        ("apply_rotary_emb", "along_heads", "to_halves"),
        ("apply_rotary_emb", "k_back", "stale"),
        ("apply_rotary_emb", "q_k_swapped", "left_complex"),
        ("rotary_attention", "unmasked", "unscaled"),
        ("rotary_attention", "k_unturned", "reshaped"),
        ("rotary_attention", "halves", "mask_peeks"),
        ("rotary_attention", "clockwise", "v_turned"),
        ("add_positions", "start_ignored", "multiplied"),
        ("add_positions", "rows_by_batch", "subtracted"),
        ("add_positions", "row_after", "x_scaled"),
    ],
)
def test_two_mistakes_are_both_named(exercise, one, other):
    mistakes = chosen(exercise, one, other)
    report = check(with_mistakes(EXERCISES[exercise], mistakes), exercise)
    assert report.outcome is Outcome.WRONG and {one, other} <= set(report.mistakes)
    assert FEEDBACK[one] in report.feedback and FEEDBACK[other] in report.feedback


@pytest.mark.parametrize("exercise", EXERCISES)
def test_no_two_mistakes_in_the_bank_cancel(exercise):
    every = list(combinations(EXERCISES[exercise], 2))
    for mistakes in random.Random(0).sample(every, min(len(every), 25)):
        report = check(with_mistakes(EXERCISES[exercise], mistakes), exercise)
        assert report.outcome in (Outcome.WRONG, Outcome.UNREADABLE), mistakes
        from_the_bank = {*itertools.chain(*EXERCISES[exercise].stages.values())}
        assert len(from_the_bank.intersection(report.mistakes)) <= 2


def test_a_feedback_holds_no_formula_and_no_number():
    for text in FEEDBACK.values():
        assert not re.search(r"[=*^]|cos\(|sin\(|\d\.\d|\bpi\b|\*\*", text), text
        assert text[-1] == "." and "  " not in text


def test_the_function_s_own_name_finds_the_exercise():
    def rotate_pair(x, y, angle):
        return by_sines(x, y, angle)

    report = check(rotate_pair)
    assert (report.exercise, report.outcome) == ("rotate_pair", Outcome.RIGHT)


def test_the_latest_report_of_a_function_s_own_name_is_kept_and_told(monkeypatch):
    told = []
    monkeypatch.setattr(code_check, "on_report", [lambda: told.append(dict(reports))])
    reports.clear()

    def inv_freq(d_head, base):
        return minus_forgotten(d_head, base)

    first = check(inv_freq)
    assert reports == {"inv_freq": first} and first.outcome is Outcome.WRONG
    check(a_list, "inv_freq")  # as a worked solution does
    assert reports == {"inv_freq": first} and told == [{"inv_freq": first}]

    def inv_freq(d_head, base):
        return a_list(d_head, base)

    second = check(inv_freq)
    assert reports == {"inv_freq": second} and second.outcome is Outcome.RIGHT


def test_a_function_that_answers_sometimes_was_attempted():
    def rotate_pair(x, y, angle):
        return by_sines(x, y, angle) if x.ndim == 2 else None

    assert check(rotate_pair).outcome is Outcome.UNREADABLE


@pytest.mark.parametrize(
    ("exercise", "function", "mistakes"),
    [
        ("inv_freq", lambda d, b: torch.full((d // 2,), float(b)), ("constant",)),
        ("inv_freq", lambda d, b: torch.zeros(d // 2), ("constant",)),
        ("inv_freq", lambda d, b: [1.0] * (d // 2), ("floored",)),
        ("precompute_freqs_cis", lambda d, n, b: torch.zeros(n, d // 2), ("constant",)),
        (
            "inv_freq",
            lambda d, b: rope.inv_freq(d, b) * (1 + 0j),
            ("complex_numbers",),
        ),
        (
            "rotate_pair",
            lambda x, y, a: (by_sines(x, y, a)[0], -by_sines(x, y, a)[1]),
            ("second_negated",),
        ),
    ],
)
def test_no_false_mistake_is_fitted(exercise, function, mistakes):
    assert check(function, exercise).mistakes == mistakes


@pytest.mark.parametrize("factor", [1.05, 0.95])
def test_half_precision_excuses_little(factor):
    def apply_rotary_emb(xq, xk, freqs_cis):
        q, k = rope.apply_rotary_emb(xq, xk, freqs_cis)
        return (q * factor, k) if xq.dtype == torch.bfloat16 else (q, k)

    assert "bfloat16" in check(apply_rotary_emb).mistakes


def test_arrays_of_any_order_are_numbers():
    def inv_freq(d_head, base):
        return (base ** (np.arange(-(d_head - 2), 1, 2) / d_head))[::-1]

    assert check(inv_freq).outcome is Outcome.RIGHT


def test_the_reader_s_session_is_left_alone():
    def rotate_pair(x, y, angle):
        torch.set_grad_enabled(False)
        random.random()
        np.random.rand()
        warnings.simplefilter("error")
        return by_sines(x, y, angle)

    before = (
        random.getstate(),
        np.random.get_state()[1].tolist(),
        list(warnings.filters),
    )
    torch.set_default_device("meta")
    try:
        assert check(rotate_pair).outcome is Outcome.RIGHT
    finally:
        torch.set_default_device(None)
    assert torch.is_grad_enabled()
    now = random.getstate(), np.random.get_state()[1].tolist(), list(warnings.filters)
    assert now == before


def test_whatever_is_raised_is_told():
    class Untold(Exception):
        def __str__(self):
            raise ValueError

    def leaves(x, y, angle):
        sys.exit(3)

    def raises(x, y, angle):
        raise Untold

    assert "SystemExit: 3" in check(leaves, "rotate_pair").feedback
    assert "It raised Untold" in check(raises, "rotate_pair").feedback


def test_what_is_random_is_said_to_be():
    def add_positions(x, P, start_pos=0):
        rows = torch.nn.Embedding(*P.shape).weight
        return x + rows[start_pos : start_pos + x.shape[1]]

    assert check(add_positions).mistakes == ("random",)


def test_the_end_of_the_table_is_reached_or_the_reader_is_told():
    def add_positions(x, P, start_pos=0):
        if start_pos < 0 or start_pos + x.shape[1] >= len(P):
            raise IndexError("no row")
        return x + P[start_pos : start_pos + x.shape[1]]

    assert "last_row" in check(add_positions).mistakes


def test_a_result_of_another_shape_was_run_and_cannot_be_compared():
    report = check(lambda d_head, base: [1.0], "inv_freq")
    assert repr(report).startswith("inv_freq: could not be compared. The shape")


def test_math_s_functions_for_numbers_get_a_word():
    def rotate_pair(x, y, angle):
        return x * math.cos(angle) - y * math.sin(angle), y

    assert "torch has them for tensors" in check(rotate_pair).feedback


def test_every_finding_has_lines_of_its_own():
    lines = repr(
        check(
            lambda x, P, start_pos=0: x + P[start_pos : start_pos + x.shape[1]],
            "add_positions",
        )
    )
    assert "\nA negative start_pos" in lines


@pytest.mark.parametrize(
    ("function", "opening"),
    [
        (by_sines, "rotate_pair: right. Tried on"),
        (stale := overwritten_names, "rotate_pair: not right. The second coordinate"),
        (stub_pass, "rotate_pair: not attempted. Nothing"),
        (
            lambda x, y, a: x.no,
            "rotate_pair: could not be run. It raised AttributeError: ",
        ),
    ],
)
def test_a_report_is_a_verdict_and_plain_wrapped_text(function, opening):
    report = check(function, "rotate_pair")
    lines = repr(report).splitlines()
    assert isinstance(report, Verdict) and repr(report).startswith(opening)
    assert all(len(line) <= WIDTH for line in lines)
    outcome = opening.split(". ")[0]
    assert " ".join(lines) == f"{outcome}. {report.feedback}"


# --- What is no answer ----------------------------------------------------------------


def test_what_a_function_raises_is_quoted_with_its_inputs():
    def raises(x, y, angle):
        raise ValueError("my\n own words.")

    report = check(raises, "rotate_pair")
    assert report.outcome is Outcome.UNREADABLE and report.mistakes == ()
    assert report.feedback == (
        "It raised ValueError: my own words, for x of shape [4, 3], "
        "y of shape [4, 3], angle of shape [4, 3]."
    )


def test_numbers_among_the_inputs_are_named():
    def raises(d_head, max_seq_len, base):
        raise KeyError

    report = check(raises, "precompute_freqs_cis")
    assert report.feedback == (
        "It raised KeyError, for d_head = 8, max_seq_len = 11, base = 100.0."
    )


def test_a_quoted_message_is_short_and_has_no_address():
    def raises(x, y, angle):
        raise ValueError(f"{object()} " + "word " * 1000)

    feedback = check(raises, "rotate_pair").feedback
    assert "<object object at 0x...>" in feedback and len(feedback) < 400


@pytest.mark.parametrize(
    ("function", "exercise", "said"),
    [
        (
            lambda xq, xk, xv, freqs_cis: (xq, xk, xv),
            "apply_rotary_emb",
            "It is called with xq, xk, freqs_cis, one after the other, and takes xq, xk, xv, freqs_cis.",
        ),
        (
            lambda x, P: x,
            "add_positions",
            "It is called with x, P, start_pos, one after the other, and takes x, P.",
        ),
        (
            lambda: 1,
            "inv_freq",
            "It is called with d_head, base, one after the other, and takes nothing.",
        ),
    ],
)
def test_other_arguments_are_told(function, exercise, said):
    report = check(function, exercise)
    assert (report.outcome, report.feedback) == (Outcome.UNREADABLE, said)


def test_what_torch_lacks_is_no_stub():
    def lacking(x, y, angle):
        raise NotImplementedError("\"polar\" not implemented for 'Half'")

    assert check(lacking, "rotate_pair").outcome is Outcome.UNREADABLE


def test_an_error_on_some_inputs_is_told_with_inputs_that_work():
    def two_axes_only(x, y, angle):
        if x.ndim == 3:
            raise ValueError("two axes only")
        return by_sines(x, y, angle)

    report = check(two_axes_only, "rotate_pair")
    assert report.outcome is Outcome.UNREADABLE
    assert report.feedback.startswith(
        "It raised ValueError: two axes only, for x of shape [2, 5, 3]"
    )
    assert report.feedback.endswith(
        "It is right for x of shape [4, 3], y of shape [4, 3], angle of shape [4, 3]."
    )


def test_a_function_that_fails_on_ordinary_inputs_is_not_tried_on_short_tables():
    def three_texts_are_too_many(x, P, start_pos=0):
        if len(x) == 3:
            raise MemoryError
        return bare_slice(x, P, start_pos)

    report = check(three_texts_are_too_many, "add_positions")
    assert report.outcome is Outcome.UNREADABLE and "row" not in report.feedback


X = torch.zeros(4, 3)


TENSOR = "torch.Tensor of shape [4, 3]"


@pytest.mark.parametrize(
    ("exercise", "answer", "came"),
    [
        ("rotate_pair", torch.zeros(2, 4, 3), "torch.Tensor of shape [2, 4, 3]"),
        ("rotate_pair", (X, X, X), f"{TENSOR}, {TENSOR}, {TENSOR}"),
        ("rotate_pair", (X, None), f"{TENSOR}, NoneType"),
        ("rotate_pair", X.numpy(), "numpy.ndarray"),
        ("rotate_pair", (X.numpy(), X.numpy()), "numpy.ndarray, numpy.ndarray"),
        ("rotate_pair", (1.0, 2.0), "float, float"),
        ("rotate_pair", [1, 2, 3, 4], "int, int, int, ..."),
        ("rotate_pair", (), "tuple"),
        ("rotate_pair", {}, "dict"),
        ("inv_freq", "1, 0.1", "str"),
        ("inv_freq", [1.0, None], "float, NoneType"),
        ("inv_freq", [[1.0], [1.0, 2.0]], "list, list"),
        ("precompute_freqs_cis", [[1j]], "list"),
        ("precompute_freqs_cis", np.ones((11, 4)), "numpy.ndarray"),
        ("add_positions", (torch.zeros(2, 4, 6),), "tuple"),
    ],
)
def test_an_answer_of_another_kind_is_no_answer(exercise, answer, came):
    report = check(lambda *_: answer, exercise)
    assert report.outcome is Outcome.UNREADABLE and report.mistakes == ()
    opening = f"What came back: {came}. Wanted: {EXERCISES[exercise].results[0]}"
    assert report.feedback.startswith(opening) and "torch.Tensor" in report.feedback


@pytest.mark.parametrize(
    ("exercise", "answer", "said"),
    [
        (
            "rotate_pair",
            (X, X[0]),
            "The shape of y' is [3]; wanted is [4, 3], for x of",
        ),
        (
            "inv_freq",
            [1.0],
            "The shape of the frequencies is [1]; wanted is [4], for d",
        ),
        ("inv_freq", 1.0, "The shape of the frequencies is []; wanted is [4], for d_h"),
    ],
)
def test_another_shape_is_no_answer(exercise, answer, said):
    report = check(lambda *_: answer, exercise)
    assert report.outcome is Outcome.UNREADABLE and said in report.feedback


def test_another_type_of_refusal_is_right_with_a_word_about_it():
    report = check(one_hot_times_table, "add_positions")
    assert report.outcome is Outcome.RIGHT
    assert report.feedback.endswith(
        "It refuses with RuntimeError; IndexError is what a caller expects of a missing row."
    )
    assert "with ValueError" in check(row_by_row, "add_positions").feedback
    assert "refuses" not in check(as_the_course, "add_positions").feedback


def as_the_course(x, P, start_pos=0):
    guarded(x, P, start_pos)
    return x + P[start_pos : start_pos + x.shape[1]]


def test_gradients_are_no_obstacle():
    scale = torch.nn.Parameter(torch.ones(()))

    def with_graph(x, y, angle):
        return by_sines(scale.to(x.dtype) * x.requires_grad_(), y, angle)

    assert check(with_graph, "rotate_pair").outcome is Outcome.RIGHT


@pytest.mark.parametrize("function", [None, "rotate_pair", 3])
def test_what_cannot_be_called_is_a_type_error(function):
    with pytest.raises(TypeError, match=f"got {type(function).__name__}, want a func"):
        check(function, "rotate_pair")


@pytest.mark.parametrize("exercise", ["rotate", "", None])
def test_an_unknown_exercise_is_a_value_error_that_lists_the_known(exercise):
    with pytest.raises(ValueError) as error:
        check(lambda: None, exercise)
    assert all(name in str(error.value) for name in EXERCISES)
    assert repr(exercise or ("<lambda>" if exercise is None else "")) in str(
        error.value
    )


# --- The reader's session -------------------------------------------------------------


def careless_with_the_session(x, y, angle):
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(3)
    torch.manual_seed(0)
    return by_sines(x, y, angle)


def interrupted(x, y, angle):
    careless_with_the_session(x, y, angle)
    raise KeyboardInterrupt


@pytest.mark.parametrize("function", [careless_with_the_session, interrupted])
def test_the_session_is_as_before(function):
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    before = torch.get_default_dtype(), torch.get_num_threads()
    try:
        check(function, "rotate_pair")
    except KeyboardInterrupt:
        assert function is interrupted
    assert torch.equal(torch.rand(3), expected)
    assert (torch.get_default_dtype(), torch.get_num_threads()) == before


def test_a_second_check_gives_the_same_report():
    for exercise, function, _ in WRONG[::10]:
        first = first_report(function, exercise)
        torch.rand(7)
        second = check(function, exercise)
        assert second == first and repr(second) == repr(first)


def test_a_random_function_gets_the_same_report_every_time():
    def random_error(x, y, angle):
        raise ValueError(f"drew {torch.rand(())}")

    first = check(random_error, "rotate_pair")
    torch.manual_seed(11)
    assert check(random_error, "rotate_pair") == first
    assert "drew 0." in first.feedback


@pytest.mark.parametrize("exercise", EXERCISES)
def test_a_default_dtype_of_float64_changes_nothing(exercise):
    functions = [f for name, f, *_ in RIGHT + WRONG if name == exercise][:8]
    reports_before = [check(function, exercise) for function in functions]
    torch.set_default_dtype(torch.float64)
    try:
        assert [check(function, exercise) for function in functions] == reports_before
    finally:
        torch.set_default_dtype(torch.float32)


def test_what_a_function_writes_into_does_not_reach_the_next_check():
    for exercise, ruined in (
        ("add_positions", into_the_table),
        ("rotate_pair", written_into_x),
    ):
        assert "in_place" in check(ruined, exercise).mistakes
    assert check(sliced, "add_positions").outcome is Outcome.RIGHT
    assert check(by_sines, "rotate_pair").outcome is Outcome.RIGHT


def test_another_process_gives_the_same_reports():
    script = (
        "from tests.test_code_check import WRONG, check\n"
        "for exercise, function, _ in WRONG[::13]: print(check(function, exercise))"
    )
    result = subprocess.run(
        [sys.executable, "-c", script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ | {"PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1"},
    )
    here = [repr(first_report(function, name)) for name, function, _ in WRONG[::13]]
    assert result.returncode == 0, result.stderr
    assert result.stdout == "\n".join(here) + "\n"
