"""The bank of mistakes: six functions, and the wrong ways to write them, each with its name.

A function is a row of stages (`model`), and each stage has its right way and wrong ones. What `lib.code_check` finds
is the choice of fewest wrong ways that gives what a reader's function gives. FEEDBACK has what is then said.

Shapes: B batch, T tokens, h heads, h_kv key heads, d_head dimensions of one head, d
width of a token's vector, P [max_position, d] a learned table. Angles are in radians.
"""

import inspect
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lib import rope

SEED = 0
Stage = dict[str, Any]  # the "right" way, and wrong ways by the name of the mistake
Inputs = tuple[Any, ...]

# --- What is said to a mistake --------------------------------------------------------

FEEDBACK = {
    # a turn
    "clockwise": "It turns the other way round: a positive angle turns anticlockwise.",
    "degrees": "The angle is taken for degrees; it comes in radians.",
    "to_degrees": "The angle becomes degrees on the way; sine and cosine want radians.",
    "turns": "The angle is counted in full turns; it comes in radians.",
    "point_unturned": "Nothing is turned: the point comes back as it was.",
    "halved": "It turns half as far as it should.",
    "doubled": "It turns twice as far as it should: perhaps the turn is made two times.",
    "stale": "The second coordinate is made from the new first one; both are made from the old ones.",
    "no_minus": "A minus sign is missing: with plus signs alone a point does not keep its distance.",
    "two_minuses": "There is one minus sign too many: only one of the four products is taken away.",
    "reflected": "It mirrors the point instead of turning it: the minus sign stands in the other line.",
    "cos_sin_swapped": "Sine and cosine have changed places.",
    "cos_only": "The sine is nowhere to be seen: only the cosine is used.",
    "sin_is_cos": "The cosine stands in all four products; two of them want the sine.",
    "own_product": "Each new coordinate is one product; a turn mixes both old coordinates into each.",
    "own_coordinate": "Each new coordinate is made from its own old one alone; a turn mixes the two.",
    "added": "Sine and cosine are added to the coordinates; a turn multiplies by them.",
    "inputs_swapped": "The two coordinates change places before the turn.",
    "outputs_swapped": "The two results come back in each other's place.",
    "pair_swapped": "Within every pair the two results stand in each other's place.",
    "first_only": "Only the first coordinate is turned; the second comes back as it was.",
    "first_negated": "The first coordinate comes back with the wrong sign.",
    "second_negated": "The second coordinate comes back with the wrong sign.",
    "second_only": "Only the second coordinate is turned; the first comes back as it was.",
    # frequencies
    "from_one": "i is counted from 1; the first pair is pair 0.",
    "from_minus_one": "i starts below 0: the paper's i - 1 is for an i that counts from 1.",
    "first_dropped": "The first pair's frequency is missing: i begins one pair too late.",
    "per_dimension": "i runs over the dimensions of a head; it should run over its pairs, half as many.",
    "step_missing": "The exponent takes a step at every dimension; it should take one at every pair.",
    "factor_missing": "The factor 2 in the exponent is missing: the frequencies fall too slowly.",
    "factor_twice": "The exponent is twice as large as it should be: the 2 is in it two times, or d_head was halved.",
    "last_too_far": "The frequencies are spread until the last is 1/base; the denominator is too small.",
    "floored": "All frequencies are equal: // throws away the fraction in the exponent.",
    "floored_down": "All frequencies after the first are equal: // rounds the negative exponent down.",
    "growing": "The frequencies grow with i: the exponent has lost its minus sign.",
    "minus_outside": "The frequencies are negative: the minus sign belongs to the exponent, not the power.",
    "product": "The base is multiplied by the exponent; it should be raised to it.",
    "natural_base": "The power is one of e, so that base never takes part.",
    "wavelength": "These are wavelengths, in tokens per full turn; what is wanted is radians per token.",
    "base_ignored": "base is ignored: the frequencies are those of 10000 whatever it is.",
    "slowest_first": "The order of the frequencies is reversed: the fastest pair comes first.",
    "each_twice": "Every frequency appears twice, side by side; one for each pair is wanted.",
    "list_twice": "All the frequencies come once more at the end; one for each pair is wanted.",
    # the table
    "from_position_one": "The positions are counted from 1; the first row belongs to position 0.",
    "one_late": "The first row belongs to position -1, and every other is one row late.",
    "positions_reversed": "The rows run from the last position to the first.",
    "positions_scaled": "The positions are divided by max_seq_len; a row must not depend on the table's length.",
    "positions_stretched": "The positions are a little more than one token apart: look at where the range ends.",
    "positions_equal": "All rows are equal: the position is not in the angle.",
    "one_row_more": "There is one row too many: max_seq_len itself has no row.",
    "polar_swapped": "The angle stands where the length belongs, and the length where the angle does.",
    "angles_only": "The table holds the angles themselves; it should hold what turns a pair by them.",
    "transposed": "The table lies on its side: a row belongs to a position, a column to a pair.",
    "real_pairs": "Cosine and sine stand in an axis of their own; one complex number holds both.",
    "real_halves": "The sines follow the cosines as more columns; one complex number holds both.",
    "real": "A table of real numbers came back; complex ones are wanted.",
    # rotation of heads
    "k_unturned": "The keys are not turned; queries and keys both are.",
    "q_unturned": "The queries are not turned; queries and keys both are.",
    "unturned": "Nothing is turned: queries and keys stay as they were.",
    "k_back": "The keys turn against the queries; both turn in one direction.",
    "q_back": "The queries turn backwards and the keys forwards; both turn in one direction.",
    "q_k_swapped": "Queries and keys have changed places.",
    "q_twice": "Both results come from the queries: look at what the line for the keys turns.",
    "k_twice": "Both results come from the keys: look at what the line for the queries turns.",
    "three_results": "Three results came back, want the turned queries and keys: RoPE leaves the values alone.",
    "along_heads": "The table's rows run along the heads; row t belongs to token t, the second axis of four.",
    "along_batch": "The table's rows run along the batch; row t belongs to token t, the second axis of four.",
    "row_late": "Every token is turned by the row of the token before it.",
    "row_early": "Every token is turned by the row of the token after it.",
    "row_late_but_first": "Every token but the first is turned by the row of the token before it.",
    "row_early_but_last": "Every token but the last is turned by the row of the token after it.",
    "rows_reversed": "The table is read from its last row to its first.",
    "row_first": "Every token is turned by the table's first row; each token has its own.",
    "row_last": "Every token is turned by the table's last row; each token has its own.",
    "own_table": "freqs_cis is ignored: the tokens are turned as if they stood at 0, 1, 2 and so on.",
    "columns_reversed": "The table's columns are used backwards: pair 0 is turned as the last pair should be.",
    "one_frequency": "All pairs turn as far as pair 0; each pair has its own column.",
    "halves": "Pairs are taken from the two halves of a head; here neighbours form a pair.",
    "to_halves": "Pairs are read as neighbours and written back as two halves: put them where they came from.",
    "halves_to_neighbours": "Pairs are read from the two halves and written back as neighbours.",
    "halves_neighbour_angles": "Pairs are taken from the two halves, and their angles are laid out for neighbours.",
    "neighbours_half_angles": "Pairs are neighbours, and their angles are laid out for two halves.",
    "left_complex": "Complex numbers came back: write every pair as two real dimensions again.",
    "left_in_pairs": "The pairs were left in an axis of their own: the last axis is the whole head again.",
    "real_part": "Only the real parts came back: a pair has two numbers.",
    "heads_merged": "The heads were merged into one axis; they should stay apart.",
    "one_row_for_all": "A table of one row turns all tokens alike, silently; it must raise an error.",
    "long_table": "A table with more rows than tokens is accepted, silently; it must raise an error.",
    "short_table": "A table with fewer rows than tokens is accepted, silently; it must raise an error.",
    # attention
    "no_position": "It is as if nothing were turned. Or is every token turned alike? Each has a row of its own.",
    "v_turned": "The values are turned too; RoPE leaves them alone.",
    "keys_as_values": "The weights are applied to the keys; they belong to the values.",
    "values_unused": "The values are not used: it is the attention weights that come back.",
    "unscaled": "The scores are not scaled, so that they grow with d_head.",
    "scaled_by_d": "The scores are made too small: scaled two times, or the root of d_head forgotten.",
    "upscaled": "The scale makes the scores larger; it should make them smaller.",
    "scaled_by_width": "The scale is taken from the width of all heads together; one head's counts.",
    "unmasked": "Tokens see what comes after them: the causal mask is missing.",
    "mask_reversed": "The mask is upside down: it hides the past and shows the future.",
    "mask_strict": "A token cannot see itself, and the first has nothing to see: NaN. The mask is one diagonal off.",
    "mask_strict_finite": "A token cannot see itself: the mask is one diagonal off.",
    "mask_strict_zero": "A token cannot see itself, and the first one gets zeros: the mask is one diagonal off.",
    "mask_inverted": "A token sees only what comes after it, and the last has nothing to see: NaN.",
    "mask_inverted_zero": "A token sees only what comes after it, and the last one gets zeros: the mask is inverted.",
    "mask_added": "The ones and zeros of the mask are added to the scores, which hides nothing.",
    "mask_peeks": "A token sees the one after it: the mask begins one diagonal too late.",
    "mask_zero": "Hidden scores are set to 0, and a score of 0 still has weight after the softmax.",
    "masked_after": "The mask comes after the softmax, so that a token's weights no longer add up to 1.",
    "softmax_queries": "The softmax runs over the queries; the weights of one query add up to 1 over the keys.",
    "softmax_heads": "The softmax runs over the heads; every head has weights of its own.",
    "no_softmax": "The softmax is missing: the scores themselves are used as weights.",
    "over_heads": "The heads of one token attend to each other: tokens must attend to tokens, head by head.",
    "reshaped": "Heads come before tokens by a reshape, which mixes them; the two axes must change places.",
    "back_reshaped": "The result goes back by a reshape, which mixes heads and tokens; the axes must change places.",
    "heads_first": "The result still has its heads before its tokens.",
    # the learned lookup
    "start_ignored": "start_pos is ignored: the rows are those of tokens that begin at 0.",
    "one_row": "Every token gets the row of the first one.",
    "one_row_last": "Every token gets the row of the last one.",
    "rows_by_batch": "The rows run along the batch; a row belongs to a token, the second axis of three.",
    "rows_of_batch": "There are as many rows as texts in the batch; there should be one for every token.",
    "row_before": "Every token gets the row of the position before its own.",
    "row_after": "Every token gets the row of the position after its own.",
    "rows_backwards": "The rows are added from the last token to the first.",
    "stops_at_T": "The slice ends at T wherever it starts; it should be T rows long.",
    "whole_table": "All rows of the table are added, which works only when the text is as long as the table.",
    "rows_from_end": "The rows are the last ones of the table, wherever the text starts.",
    "multiplied": "The rows are multiplied into the token vectors; they should be added.",
    "subtracted": "The rows are taken away from the token vectors; they should be added.",
    "averaged": "Token vectors and rows are averaged; a sum is wanted.",
    "x_scaled": "The token vectors are multiplied by the root of d first; here they are taken as they come.",
    "concatenated": "The rows are put beside the token vectors; they should be added.",
    "rows_only": "Only the rows come back; the token vectors are lost.",
    "x_only": "The token vectors come back as they were: no row is added.",
    "past_end": "A token past the end of the table is accepted; it must raise an IndexError.",
    "past_end_one_row": "With one row left, that row is added to all tokens, silently; it must raise an IndexError.",
    "past_end_empty": "With no row left, the token disappears, silently; it must raise an IndexError.",
    "past_end_cut": "Tokens past the end of the table are cut off, silently; they must raise an IndexError.",
    "past_end_clamped": "Tokens past the end get the last row again, silently; they must raise an IndexError.",
    "past_end_wrapped": "Past the end it goes on with row 0, silently; it must raise an IndexError.",
    "past_end_zeros": "Tokens past the end get no position, silently; they must raise an IndexError.",
    "before_start": "A negative start_pos is accepted; it must raise an IndexError.",
    "before_start_from_end": "A negative start_pos counts from the table's end, silently; it must raise an IndexError.",
    "before_start_clamped": "Tokens before position 0 get row 0, silently; they must raise an IndexError.",
    "before_start_shifted": "A negative start_pos is taken for 0, silently; it must raise an IndexError.",
    "before_start_zeros": "Tokens before position 0 get no position, silently; they must raise an IndexError.",
    "before_start_empty": "With a negative start_pos the tokens disappear, silently; it must raise an IndexError.",
    # side effects, and what shows on some inputs only
    "in_place": "It writes into what it is given, {}; make new tensors.",
    "dtype": "{} comes in and {} goes out; give back the type that came in.",
    "not_broadcast": "It is right for three inputs of one shape; their shapes may differ and broadcast.",
    "large_angle": "It is right for small angles only.",
    "bfloat16": "It is right in float32, not in bfloat16.",
    "float64": "It is right in float32, not in float64.",
    "view": "It is right for contiguous tensors, not for a transposed view.",
    "one_pair": "It is right for larger heads, not for a d_head of 2.",
    "drifts": "It is right in the first rows and wrong further on, as when positions or angles are rounded.",
    "large_head": "It is right for small heads, not for a d_head of 128.",
    "one_position": "It is right for longer tables, not for one of a single row.",
    "fewer_key_heads": "It is right for as many key heads as query heads, not for fewer.",
    "one_token": "It is right for larger inputs, not for a single token.",
    "many_tokens": "It is right for short texts, not for longer ones.",
    "last_row": "The table's last row is never reached; a text may end there.",
    "random": "Two calls with the same inputs give different results: something in it is random or keeps a state.",
    "no_default": "It is not right without start_pos: then the text begins at 0.",
    # properties, when no combination of mistakes explains what came
    "complex_numbers": "Complex numbers came back; real ones are wanted.",
    "nan": "Some results are no finite numbers.",
    "half_precision": "It is right only roughly, within some percent, as when something is rounded on the way.",
    "constant": "Every number that comes back is the same.",
    "zero_turns": "A point moves though the angle is 0.",
    "distance_changes": "A turn keeps a point's distance from the origin, and here it changes.",
    "angle_off": "Distances are kept, and the points land at a wrong angle.",
    "first_not_fixed": "The first frequency should not depend on base or d_head, and is off.",
    "not_falling": "The frequencies should fall from pair to pair.",
    "row_0_turns": "Nothing has turned yet at position 0, and the first row says otherwise.",
    "length_not_one": "An entry of the table must turn a pair and not stretch it: not all have length 1.",
    "position_0_moves": "A token at position 0 should come back as it was.",
    "position_ignored": "Another table gives the same result: the position plays no part.",
    "pairs_mixed": "The length of a head is kept, and the lengths of its pairs are not: other dimensions are mixed.",
    "length_changes": "A turn keeps the length of a head, and here it changes.",
    "pair_angle_off": "The pairs keep their lengths and are turned by a wrong angle.",
    "sees_future": "Another last token changes what the tokens before it give: they see the future.",
    "weights_off": "With all values equal the result should be that value: some token's weights do not add up to 1.",
    "moving_changes": "Moving the whole text by some positions changes the result; only distances should count.",
    "batch_differs": "The rows of the batch get different positions.",
    "x_lost": "The token vectors do not come through unchanged under the sum.",
    "only_first_result": "The first result is right, the second is not.",
    "only_second_result": "The second result is right, the first is not.",
    "only_first": "It is right at {} 0 only.",
    "unexplained": "It is none of the mistakes that are known here.",
    # whatever came is no answer
    "error": "It raised {}, for {}.",
    "arguments": "It is called with {}, one after the other, and takes {}.",
    "kind": "What came back: {}. Wanted: {}, {}.",
    "refusal": "It refuses with {}; {} is what a caller expects of a missing row.",
    "shape": "The shape of {} is {}; wanted is {}, for {}.",
}

# --- The bank: stages with their right and their wrong ways ---------------------------


def turned(x: Tensor, y: Tensor, f: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """x' made with f and y' made with g, both cos + i sin of the angle."""
    return x * f.real - y * f.imag, x * g.imag + y * g.real


def _stale(x: Tensor, y: Tensor, f: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    x, _ = turned(x, y, f, f)
    return x, turned(x, y, g, g)[1]


ANGLE = dict(
    right=lambda angle: angle,
    clockwise=torch.neg,
    degrees=torch.deg2rad,
    to_degrees=torch.rad2deg,
    turns=lambda angle: 2 * math.pi * angle,
    point_unturned=torch.zeros_like,
    halved=lambda angle: angle / 2,
    doubled=lambda angle: 2 * angle,
)
TERMS = dict(
    right=turned,
    stale=_stale,
    no_minus=lambda x, y, f, g: (x * f.real + y * f.imag, x * g.imag + y * g.real),
    two_minuses=lambda x, y, f, g: (x * f.real - y * f.imag, x * g.imag - y * g.real),
    reflected=lambda x, y, f, g: (x * f.real + y * f.imag, x * g.imag - y * g.real),
    cos_sin_swapped=lambda x, y, f, g: turned(x, y, 1j * f.conj(), 1j * g.conj()),
    cos_only=lambda x, y, f, g: (x * f.real, y * g.real),
    sin_is_cos=lambda x, y, f, g: ((x - y) * f.real, (x + y) * g.real),
    own_product=lambda x, y, f, g: (x * f.real, y * g.imag),
    own_coordinate=lambda x, y, f, g: (x * (f.real - f.imag), y * (g.real + g.imag)),
    added=lambda x, y, f, g: (x + f.real, y + g.imag),
    inputs_swapped=lambda x, y, f, g: turned(y, x, f, g),
    pair_swapped=lambda x, y, f, g: turned(x, y, g, f)[::-1],
    first_only=lambda x, y, f, g: (turned(x, y, f, g)[0], y),
    second_only=lambda x, y, f, g: (x, turned(x, y, f, g)[1]),
    first_negated=lambda x, y, f, g: (-turned(x, y, f, g)[0], turned(x, y, f, g)[1]),
    second_negated=lambda x, y, f, g: (turned(x, y, f, g)[0], -turned(x, y, f, g)[1]),
)
PAIR = dict(right=lambda x, y: (x, y), outputs_swapped=lambda x, y: (y, x))

NUMBER = dict(
    right=lambda d_head: torch.arange(d_head // 2),
    from_one=lambda d_head: torch.arange(d_head // 2) + 1,
    from_minus_one=lambda d_head: torch.arange(d_head // 2) - 1,
    first_dropped=lambda d_head: torch.arange(1, d_head // 2),
    per_dimension=lambda d_head: torch.arange(d_head),
    step_missing=lambda d_head: torch.arange(d_head) / 2,
)
EXPONENT = dict(
    right=lambda i, d_head: 2 * i / d_head,
    factor_missing=lambda i, d_head: i / d_head,
    factor_twice=lambda i, d_head: 4 * i / d_head,
    last_too_far=lambda i, d_head: 2 * i / (d_head - 2),
    floored=lambda i, d_head: 2 * i // d_head,
    floored_down=lambda i, d_head: -(-2 * i // d_head),
)
POWER = dict(
    right=lambda base, exponent: base**-exponent,
    growing=lambda base, exponent: base**exponent,
    minus_outside=lambda base, exponent: -(base**exponent),
    product=lambda base, exponent: base * -exponent,
    natural_base=lambda base, exponent: torch.exp(-exponent),
    wavelength=lambda base, exponent: 2 * math.pi * base**exponent,
)
ASKED = dict(right=lambda base: base, base_ignored=lambda base: rope.BASE)
ORDER = dict(
    right=lambda theta: theta,
    slowest_first=lambda theta: theta.flip(0),
    each_twice=lambda theta: theta.repeat_interleave(2),
    list_twice=lambda theta: theta.repeat(2),
)

POSITIONS = dict(
    right=lambda n: torch.arange(n),
    from_position_one=lambda n: torch.arange(n) + 1,
    one_late=lambda n: torch.arange(n) - 1,
    positions_reversed=lambda n: torch.arange(n).flip(0),
    positions_scaled=lambda n: torch.arange(n) / n,
    positions_stretched=lambda n: torch.linspace(0, n, n),
    positions_equal=lambda n: torch.ones(n),
    one_row_more=lambda n: torch.arange(n + 1),
)
CIS: Stage = dict(
    right=lambda angle: torch.complex(angle.cos(), angle.sin()),
    clockwise=lambda angle: torch.complex(angle.cos(), -angle.sin()),
    cos_sin_swapped=lambda angle: torch.complex(angle.sin(), angle.cos()),
    cos_only=torch.cos,
    sin_is_cos=lambda angle: torch.complex(angle.cos(), angle.cos()),
    degrees=lambda angle: CIS["right"](angle.deg2rad()),
    to_degrees=lambda angle: CIS["right"](angle.rad2deg()),
    turns=lambda angle: CIS["right"](2 * math.pi * angle),
    polar_swapped=lambda angle: torch.polar(angle, torch.ones_like(angle)),
    angles_only=lambda angle: angle,
)
TABLE = dict(
    right=lambda table: table,
    transposed=lambda table: table.mT,
    real_pairs=lambda table: torch.stack((table.real, table.imag), dim=-1),
    real_halves=lambda table: torch.cat((table.real, table.imag), dim=-1),
)

# turn(x, freqs_cis) rotates one tensor of heads.
WHICH = dict(
    right=lambda turn, q, k, f: (turn(q, f), turn(k, f)),
    k_unturned=lambda turn, q, k, f: (turn(q, f), k),
    q_unturned=lambda turn, q, k, f: (q, turn(k, f)),
    unturned=lambda turn, q, k, f: (q, k),
    k_back=lambda turn, q, k, f: (turn(q, f), turn(k, f.conj())),
    q_back=lambda turn, q, k, f: (turn(q, f.conj()), turn(k, f)),
    q_k_swapped=lambda turn, q, k, f: (turn(k, f), turn(q, f)),
    q_twice=lambda turn, q, k, f: (turn(q, f), turn(q, f)),
    k_twice=lambda turn, q, k, f: (turn(k, f), turn(k, f)),
)
_precomputed = cache(rope.precompute_freqs_cis)
# freqs_cis [T, d_head/2], as it meets pairs [B, T, heads, d_head/2]
ROWS = dict(
    right=lambda f, x: f[:, None],
    along_heads=lambda f, x: f[: x.shape[2]],
    along_batch=lambda f, x: f[: x.shape[0], None, None],
    row_late=lambda f, x: f.roll(1, dims=0)[:, None],
    row_early=lambda f, x: f.roll(-1, dims=0)[:, None],
    row_late_but_first=lambda f, x: torch.cat((f[:1], f[:-1]))[:, None],
    row_early_but_last=lambda f, x: torch.cat((f[1:], f[-1:]))[:, None],
    rows_reversed=lambda f, x: f.flip(0)[:, None],
    row_first=lambda f, x: f[:1],
    row_last=lambda f, x: f[-1:],
    own_table=lambda f, x: _precomputed(x.shape[3], len(f))[:, None],
)
FACTOR = dict(
    right=lambda f: f,
    clockwise=torch.conj,
    doubled=lambda f: f * f,
    columns_reversed=lambda f: f.flip(-1),
    one_frequency=lambda f: f[..., :1],
)


def interleaved(first: Tensor, second: Tensor) -> Tensor:
    return torch.stack((first, second), dim=-1).flatten(-2)


def neighbours(x: Tensor) -> tuple[Tensor, Tensor]:
    return x[..., ::2], x[..., 1::2]


def halves(x: Tensor) -> tuple[Tensor, Tensor]:
    first, second = x.chunk(2, dim=-1)
    return first, second


LAYOUT = dict(
    right=lambda x, f, terms: interleaved(*terms(*neighbours(x), f, f)),
    halves=lambda x, f, terms: torch.cat(terms(*halves(x), f, f), dim=-1),
    to_halves=lambda x, f, terms: torch.cat(terms(*neighbours(x), f, f), dim=-1),
    halves_to_neighbours=lambda x, f, terms: interleaved(*terms(*halves(x), f, f)),
    halves_neighbour_angles=lambda x, f, terms: torch.cat(
        terms(*halves(x), *halves(f.repeat_interleave(2, dim=-1))), dim=-1
    ),
    neighbours_half_angles=lambda x, f, terms: interleaved(
        *terms(*neighbours(x), *neighbours(torch.cat((f, f), dim=-1)))
    ),
)
WRITTEN = dict(
    right=lambda x: x,
    left_complex=lambda x: torch.complex(*neighbours(x)),
    left_in_pairs=lambda x: x.unflatten(-1, (-1, 2)),
    real_part=lambda x: neighbours(x)[0],
    heads_merged=lambda x: x.flatten(-2),
)

VALUES = dict(
    right=lambda turn, k, v, f: v,
    v_turned=lambda turn, k, v, f: turn(v, f),
    keys_as_values=lambda turn, k, v, f: k,
    values_unused=lambda turn, k, v, f: torch.eye(v.shape[1])[:, None].expand(
        *v.shape[:3], -1
    ),
)
SCALE = dict(
    right=lambda h, d_head: d_head**-0.5,
    unscaled=lambda h, d_head: 1.0,
    scaled_by_d=lambda h, d_head: 1 / d_head,
    upscaled=lambda h, d_head: d_head**0.5,
    scaled_by_width=lambda h, d_head: (h * d_head) ** -0.5,
)


def hidden(scores: Tensor, fill: float = -math.inf, diagonal: int = 1) -> Tensor:
    """scores [..., queries, keys] with `fill` from that diagonal to the upper right."""
    return scores.masked_fill(torch.ones_like(scores).triu(diagonal) > 0, fill)


MASK = dict(
    right=lambda scores, softmax: softmax(hidden(scores)),
    unmasked=lambda scores, softmax: softmax(scores),
    mask_reversed=lambda scores, softmax: softmax(hidden(scores.mT).mT),
    mask_strict=lambda scores, softmax: softmax(hidden(scores, diagonal=0)),
    mask_strict_finite=lambda scores, softmax: softmax(hidden(scores, -1e9, 0)),
    mask_strict_zero=lambda scores, softmax: softmax(
        hidden(scores, diagonal=0)
    ).nan_to_num(),
    mask_inverted=lambda scores, softmax: softmax(hidden(scores.mT, diagonal=0).mT),
    mask_inverted_zero=lambda scores, softmax: softmax(
        hidden(scores.mT, diagonal=0).mT
    ).nan_to_num(),
    mask_added=lambda scores, softmax: softmax(scores + torch.ones_like(scores).tril()),
    mask_peeks=lambda scores, softmax: softmax(hidden(scores, diagonal=2)),
    mask_zero=lambda scores, softmax: softmax(hidden(scores, 0.0)),
    masked_after=lambda scores, softmax: softmax(scores).tril(),
)
SOFTMAX = dict(
    right=lambda scores: scores.softmax(-1),
    softmax_queries=lambda scores: scores.softmax(-2),
    softmax_heads=lambda scores: scores.softmax(1),
    no_softmax=lambda scores: scores,
)


def same(x: object) -> object:
    return x


def swapped(x: Tensor) -> Tensor:
    return x.transpose(1, 2)


def mixed(x: Tensor) -> Tensor:
    """The shape of `swapped`, with the numbers still in their old order."""
    return x.reshape(x.shape[0], x.shape[2], x.shape[1], -1)


# [B, T, h, d_head] to [B, h, T, d_head], and the way back
AXES = dict(
    right=(swapped, swapped),
    over_heads=(same, same),
    reshaped=(mixed, mixed),
    back_reshaped=(swapped, mixed),
    heads_first=(swapped, same),
    heads_merged=(swapped, lambda x: swapped(x).flatten(-2)),
)

# Rows of P as they meet x [B, T, d], whose tokens stand at `at` [T]
LOOKED_UP = dict(
    right=lambda P, x, at: P[at],
    start_ignored=lambda P, x, at: P[: len(at)],
    one_row=lambda P, x, at: P[at[0]],
    one_row_last=lambda P, x, at: P[at[-1]],
    rows_by_batch=lambda P, x, at: P[at[0] : at[0] + len(x), None],
    rows_of_batch=lambda P, x, at: P[at[0] : at[0] + len(x)],
    row_before=lambda P, x, at: P[at - 1],
    row_after=lambda P, x, at: P[at + 1],
    rows_backwards=lambda P, x, at: P[at.flip(0)],
    stops_at_T=lambda P, x, at: P[at[0] : len(at)],
    whole_table=lambda P, x, at: P,
    rows_from_end=lambda P, x, at: P[-len(at) :],
)
SUM = dict(
    right=lambda x, p: x + p,
    multiplied=lambda x, p: x * p,
    subtracted=lambda x, p: x - p,
    averaged=lambda x, p: (x + p) / 2,
    x_scaled=lambda x, p: x * x.shape[-1] ** 0.5 + p,
    concatenated=lambda x, p: torch.cat((x, p.expand_as(x)), dim=-1),
    rows_only=lambda x, p: p,
    x_only=lambda x, p: x,
)


def tokens_at(x: Tensor, start_pos: int) -> Tensor:
    return torch.arange(x.shape[1]) + start_pos


def adding(rows_at: Callable[[Tensor, int], Tensor]) -> Callable:
    """x + P[rows_at(positions, rows of P)], where a row of -1 stands for none."""

    def add(x, P, start_pos):
        at = rows_at(tokens_at(x, start_pos), len(P))
        return x + P[at] * (at >= 0)[:, None]

    return add


# What is done instead of an error, by what should have been refused
ACCEPTED = {
    "past_end": dict(
        past_end_empty=lambda x, P, start_pos: x[:, :0],
        past_end_one_row=lambda x, P, start_pos: x + P[start_pos:][: x.shape[1]],
        past_end_cut=lambda x, P, start_pos: x[:, : len(P) - start_pos] + P[start_pos:],
        past_end_clamped=adding(lambda at, rows: at.clamp(max=rows - 1)),
        past_end_wrapped=adding(lambda at, rows: at % rows),
        past_end_zeros=adding(lambda at, rows: at.where(at < rows, -1)),
    ),
    "before_start": dict(
        before_start_empty=lambda x, P, start_pos: x[:, :0],
        before_start_from_end=adding(lambda at, rows: at % rows),
        before_start_clamped=adding(lambda at, rows: at.clamp(min=0)),
        before_start_shifted=adding(lambda at, rows: at - at[0]),
        before_start_zeros=adding(lambda at, rows: at.clamp(min=-1)),
    ),
}


# --- The exercises: their stages in a row ---------------------------------------------


def _rotate_pair(on, x, y, angle):
    angle = on.angle(angle)
    f = torch.complex(angle.cos(), angle.sin())
    return on.pair(*on.terms(x, y, f, f))


def _inv_freq(on, d_head, base):
    exponent = on.exponent(on.number(d_head).double(), d_head)
    return on.order(on.power(on.asked(base), exponent))


def _precompute_freqs_cis(on, d_head, max_seq_len, base):
    theta, m = _inv_freq(on, d_head, base), on.positions(max_seq_len).double()
    return on.table(on.cis(torch.outer(m, theta)))


def _turn(on, x, freqs_cis):
    factor = on.factor(on.rows(freqs_cis, x))
    return on.written(on.layout(x, factor, on.terms))


def _apply_rotary_emb(on, xq, xk, freqs_cis):
    return on.which(partial(_turn, on), xq, xk, freqs_cis)


def _rotary_attention(on, xq, xk, xv, freqs_cis):
    turn = partial(_turn, on)
    xq, xk = on.which(turn, xq, xk, freqs_cis)
    xv = on.values(turn, xk, xv, freqs_cis)
    to_heads, back = on.axes
    q, k, v = to_heads(xq), to_heads(xk), to_heads(xv)
    scores = q @ k.mT * on.scale(*xq.shape[2:])
    return back(on.mask(scores, on.softmax) @ v)


def _add_positions(on, x, P, start_pos=0):
    return on.sum(x, on.rows(P, x, tokens_at(x, start_pos)))


# --- What a function is tried on ------------------------------------------------------


@dataclass
class Trials:
    """Inputs for one exercise.

    main: no two sizes equal. lucky: sizes that agree, so that a mistaken axis runs too.
    special: by the mistake that shows there alone. refused: by the mistake of not
    raising an error.
    """

    main: list[Inputs]
    lucky: list[Inputs] = field(default_factory=list)
    special: dict[str, list[Inputs]] = field(default_factory=dict)
    refused: dict[str, list[Inputs]] = field(default_factory=dict)


def _points(randn, *shape, dtype=torch.float32, size=3.0):
    """x, y, angle"""
    x, y, angle = (randn(*shape).to(dtype) for _ in range(3))
    return x, y, size * angle


def _table(T, d_head, step=7, start=0, dtype=torch.complex64):
    """freqs_cis for tokens that stand further and further apart."""
    positions = start + step * torch.arange(T) + torch.arange(T) ** 2
    return rope.freqs_cis_at(positions, d_head, base=1000.0, dtype=dtype)


def _heads(randn, B, T, h, d_head, step=7, h_kv=None, dtype=torch.float32):
    """xq, xk, freqs_cis"""
    xq, xk = randn(B, T, h, d_head), randn(B, T, h_kv or h, d_head)
    wide = torch.complex128 if dtype == torch.float64 else torch.complex64
    return xq.to(dtype), xk.to(dtype), _table(T, d_head, step, dtype=wide)


def _rotate_pair_trials(randn) -> Trials:
    main = [_points(randn, 4, 3), _points(randn, 2, 5, 3)]
    main[0][2][1] = 0.0  # some angles
    return Trials(
        main,
        special={
            "not_broadcast": [
                (randn(5, 1), randn(5, 1), randn(4)),
                (randn(3), randn(3), randn()),
                (randn(2, 1), randn(3), randn(4, 1, 1)),
            ],
            "large_angle": [_points(randn, 7, size=500.0)],
            "view": [tuple(x.mT for x in _points(randn, 4, 3))],
            "float64": [_points(randn, 6, dtype=torch.float64)],
        },
    )


def _inv_freq_trials(randn) -> Trials:
    return Trials(
        [(8, 100.0), (12, 50.0), (6, 1000.0), (64, 10_000.0)],
        special={"one_pair": [(2, 100.0)], "large_head": [(128, 500_000.0)]},
    )


def _precompute_freqs_cis_trials(randn) -> Trials:
    return Trials(
        [(8, 11, 100.0), (12, 7, 50.0), (4, 9, 300.0)],
        special={
            "drifts": [(6, 600, 10_000.0), (4, 5000, 10_000.0)],
            "large_head": [(128, 5, 10_000.0)],
            "one_pair": [(2, 5, 100.0)],
            "one_position": [(6, 1, 100.0)],
        },
    )


def _apply_rotary_emb_trials(randn) -> Trials:
    heads = partial(_heads, randn)
    xq, xk, freqs_cis = heads(2, 5, 3, 8)
    view = [swapped(randn(2, 3, 5, 8)) for _ in range(2)]
    return Trials(
        [
            (xq, xk, freqs_cis),
            (xq, xk, _table(5, 8, start=200)),
            heads(3, 4, 2, 12, step=90),
        ],
        lucky=[heads(2, 4, 4, 8), heads(4, 4, 2, 8)],
        special={
            "fewer_key_heads": [heads(2, 5, 6, 8, h_kv=3)],
            "one_pair": [heads(2, 5, 3, 2)],
            "large_head": [heads(2, 9, 3, 128, step=12_345)],
            "one_token": [heads(1, 1, 1, 8, step=1)],
            "view": [(*view, _table(5, 8))],
            "float64": [heads(2, 5, 3, 8, dtype=torch.float64)],
            "bfloat16": [heads(2, 5, 3, 8, dtype=torch.bfloat16)],
        },
        refused={
            "one_row_for_all": [(xq, xk, freqs_cis[1:2])],
            "short_table": [(xq, xk, freqs_cis[:3])],
            "long_table": [(xq, xk, _table(7, 8))],
        },
    )


def _rotary_attention_trials(randn) -> Trials:
    def heads(*shape):
        xq, xk, freqs_cis = _heads(randn, *shape)
        return xq, xk, randn(*shape), freqs_cis

    *tokens, freqs_cis = heads(2, 5, 3, 8)
    other_last = [torch.cat((x[:, :-1], randn(2, 1, 3, 8)), dim=1) for x in tokens]
    xq, xk, xv, other_freqs_cis = heads(3, 4, 2, 12)
    view = [swapped(randn(2, 3, 5, 8)) for _ in range(3)]
    return Trials(
        [
            (*tokens, freqs_cis),
            (*other_last, freqs_cis),
            (*tokens, _table(5, 8, start=200)),
            heads(3, 4, 2, 12),
            (xq, xk, torch.ones_like(xv), other_freqs_cis),
        ],
        lucky=[heads(2, 4, 4, 8), heads(4, 4, 2, 8)],
        special={
            "one_pair": [heads(2, 5, 3, 2)],
            "one_token": [heads(1, 1, 1, 8)],
            "many_tokens": [heads(1, 40, 2, 16)],
            "view": [(*view, freqs_cis)],
        },
    )


def _add_positions_trials(randn) -> Trials:
    P, start_pos, other = randn(20, 6), 3, randn(17, 8)
    return Trials(
        [
            (randn(2, 4, 6), P, start_pos),
            (randn(2, 4, 6), P, start_pos),
            (randn(3, 5, 8), other, 9),
            (randn(3, 2, 8), other, 6),
        ],
        lucky=[
            (randn(4, 4, 6), P, 5),
            (randn(2, 5, 6), P, 0),
            (randn(2, 20, 6), P, 0),
        ],
        special={
            "last_row": [(randn(2, 4, 6), P, 16), (randn(2, 1, 6), P, 19)],
            "no_default": [(randn(2, 4, 6), P)],
            "one_token": [(randn(1, 1, 6), P, 7)],
            "view": [(randn(4, 2, 6).transpose(0, 1), P, 3)],
        },
        refused={
            "past_end": [
                (randn(2, 4, 6), P, 18),
                (randn(2, 2, 6), P, 19),
                (randn(2, 1, 6), P, 20),
            ],
            "before_start": [
                (randn(2, 2, 6), P, -3),
                (randn(2, 4, 6), P, -2),
                (randn(2, 1, 6), P, -1),
            ],
        },
    )


# --- When two results are the same ----------------------------------------------------


def close_to(a: Tensor, b: Tensor, within: tuple[float, float]) -> Tensor:
    if a.is_complex() != b.is_complex():
        a, b = a.to(torch.complex128), b.to(torch.complex128)
    return torch.isclose(a, b, atol=within[0], rtol=within[1], equal_nan=True)


def agree(
    ours: tuple[Tensor, ...], theirs: tuple[Tensor, ...], within: tuple[float, float]
) -> bool:
    """Whether the tensors have the same shapes and nearly the same numbers."""
    return len(ours) == len(theirs) and all(
        a.shape == b.shape
        and a.is_complex() == b.is_complex()
        and bool(close_to(a, b, within).all())
        for a, b in zip(ours, theirs, strict=True)
    )


# --- Properties of what is right, for what no choice of mistakes gives ----------------


def near(a: Tensor, b: Tensor | float) -> bool:
    """Whether all numbers agree to three digits, whatever their types."""
    return bool(((a - b).abs() < 1e-3 * (1 + torch.as_tensor(b).abs())).all())


def some(test: Callable[..., object]) -> Callable:
    """Whether some run fulfils test(its first result, *its inputs)."""
    return lambda runs: any(test(run.results[0], *run.inputs) for run in runs)


def differ(runs: list, *shared: int, but=lambda result, inputs: result) -> bool:
    """Whether but(result, inputs) differs between runs with the same objects `shared`."""
    return any(
        not near(*(but(run.results[0], run.inputs) for run in two))
        for two in itertools.combinations(runs, 2)
        if all(two[0].inputs[i] is two[1].inputs[i] for i in shared)
        and two[0].results[0].shape == two[1].results[0].shape
    )


def _pair_lengths(x: Tensor) -> Tensor:
    return x.unflatten(-1, (-1, 2)).norm(dim=-1)


def all_the_same(run) -> bool:
    """Whether one number fills the first result, and should not."""
    came, wanted = run.results[0], run.wanted[0]
    return came.numel() > 1 and bool(
        (came == came.flatten()[0]).all() and (wanted != wanted.flatten()[0]).any()
    )


ANY_PROPERTIES = dict(
    constant=lambda runs: all(map(all_the_same, runs)),
    complex_numbers=lambda runs: any(
        came.is_complex() > wanted.is_complex()
        for run in runs
        for came, wanted in zip(run.results, run.wanted, strict=True)
    ),
    nan=lambda runs: not all(x.isfinite().all() for run in runs for x in run.results),
    half_precision=lambda runs: all(
        agree(run.results, run.wanted, run.exercise.rough) for run in runs
    ),
)
PAIR_PROPERTIES = dict(
    only_first_result=lambda runs: all(run.agrees(slice(1)) for run in runs),
    only_second_result=lambda runs: all(run.agrees(slice(1, 2)) for run in runs),
)
ROTATE_PAIR_PROPERTIES = PAIR_PROPERTIES | dict(
    zero_turns=some(lambda new, x, y, a: not near(new[a == 0], x[a == 0])),
    distance_changes=lambda runs: (
        not all(
            near(torch.hypot(*run.results), torch.hypot(*run.inputs[:2]))
            for run in runs
        )
    ),
    angle_off=lambda runs: True,
)
INV_FREQ_PROPERTIES = dict(
    first_not_fixed=some(lambda theta, *_: not near(theta[0], 1.0)),
    not_falling=some(lambda theta, *_: (theta.diff() >= 0).any()),
)
PRECOMPUTE_PROPERTIES = dict(
    real=some(lambda table, *_: not table.is_complex()),
    row_0_turns=some(lambda table, *_: not near(table[0], 1.0)),
    length_not_one=some(lambda table, *_: not near(table.abs(), 1.0)),
)
APPLY_PROPERTIES = PAIR_PROPERTIES | dict(
    position_ignored=lambda runs: not differ(runs, 0, 1),
    position_0_moves=some(
        lambda new, xq, xk, f: (
            not near(new[:, (f == 1).all(-1)], xq[:, (f == 1).all(-1)])
        )
    ),
    length_changes=some(
        lambda new, xq, *_: not near(new.norm(dim=-1), xq.norm(dim=-1))
    ),
    pairs_mixed=some(lambda new, xq, *_: not near(*map(_pair_lengths, (new, xq)))),
    pair_angle_off=lambda runs: True,
)
ATTENTION_PROPERTIES = dict(
    sees_future=lambda runs: differ(runs, 3, but=lambda new, inputs: new[:, :-1]),
    weights_off=some(lambda new, xq, xk, xv, f: (xv == 1).all() and not near(new, 1.0)),
    moving_changes=lambda runs: differ(runs, 0, 1, 2),
)
ADD_PROPERTIES = dict(
    x_lost=lambda runs: differ(runs, 1, 2, but=lambda new, inputs: new - inputs[0]),
    batch_differs=some(lambda new, x, *_: not near(new - x, (new - x)[:1])),
)


# --- The exercises --------------------------------------------------------------------


def _numbers(answer: object) -> object:
    """A list or an array of numbers as a tensor; what is none as it is."""
    try:
        if isinstance(answer, np.ndarray):  # of any order and precision
            answer = np.array(answer, dtype=float)
        return torch.as_tensor(answer)
    except (TypeError, ValueError, RuntimeError):
        return answer


@dataclass(frozen=True)
class Task:
    """What a function is held against, what it is tried on, and the bank of mistakes."""

    reference: Callable
    results: tuple[str, ...]
    axes: tuple[str, ...]  # of a result, from the left; none: any shape
    model: Callable  # the stages in a row; its first argument holds the chosen ways
    stages: dict[str, Stage]
    properties: dict[str, Callable[[list], bool]]
    trials: Callable[..., Trials]
    tried: str
    close: tuple[float, float] = (1e-4, 1e-4)  # absolute and relative
    rough: tuple[float, float] = (3e-2, 3e-2)  # half precision
    kind: str = "a torch.Tensor"  # of a result
    read: Callable[[object], object] = same  # makes one of what else is welcome
    surplus: str = ""  # the mistake of returning one result more
    refusal: str = ""  # the type of error that is best for what must be refused
    deepest: int = 3  # so many mistakes at once are looked for

    @property
    def arguments(self) -> list[str]:
        return list(inspect.signature(self.reference).parameters)


HEAD_AXES = ("batch row", "token", "head", "dimension")
FREQUENCY: dict[str, Stage] = dict(
    number=NUMBER, exponent=EXPONENT, power=POWER, asked=ASKED, order=ORDER
)
TURN: dict[str, Stage] = dict(
    rows=ROWS, factor=FACTOR, layout=LAYOUT, terms=TERMS, written=WRITTEN
)


def without(stage: Stage, *keys: str) -> Stage:
    """The stage without some ways: they are right in an exercise, or look like others."""
    return {key: way for key, way in stage.items() if key not in keys}


# A score does not notice what is done to queries and keys alike.
ATTENTION: dict[str, Stage] = dict(
    which=without(WHICH, "unturned") | dict(no_position=WHICH["unturned"]),
    rows=without(ROWS, "along_heads", "along_batch", "row_first", "row_last"),
    factor=FACTOR,
    layout=without(LAYOUT, "to_halves", "halves_to_neighbours"),
    terms=without(
        TERMS,
        *("reflected", "cos_sin_swapped", "inputs_swapped", "pair_swapped"),
        *("first_negated", "second_negated"),
    ),
    written=dict(right=same),
    values=VALUES,
    axes=AXES,
    scale=SCALE,
    mask=MASK,
    softmax=SOFTMAX,
)
EXERCISES = {
    "rotate_pair": Task(
        rope.rotate_pair,
        results=("x'", "y'"),
        kind="each a torch.Tensor",
        axes=(),
        model=_rotate_pair,
        stages=dict(angle=ANGLE, terms=without(TERMS, "pair_swapped"), pair=PAIR),
        properties=ROTATE_PAIR_PROPERTIES,
        trials=_rotate_pair_trials,
        tried="Tried on points of equal and of broadcast shapes, at small and large angles, in float32 and float64.",
    ),
    "inv_freq": Task(
        rope.inv_freq,
        results=("the frequencies",),
        axes=("pair",),
        model=_inv_freq,
        stages=FREQUENCY,
        properties=INV_FREQ_PROPERTIES,
        trials=_inv_freq_trials,
        tried="Tried on heads of 2 to 128 dimensions and on several bases.",
        close=(1e-9, 1e-5),
        rough=(1e-9, 2e-2),
        kind="a torch.Tensor or a list of numbers",
        read=_numbers,
    ),
    "precompute_freqs_cis": Task(
        rope.precompute_freqs_cis,
        results=("the table",),
        axes=("position", "pair"),
        model=_precompute_freqs_cis,
        stages=FREQUENCY | dict(positions=POSITIONS, cis=CIS, table=TABLE),
        properties=PRECOMPUTE_PROPERTIES,
        trials=_precompute_freqs_cis_trials,
        tried="Tried on tables of 1 to 5,000 rows, for heads of 2 to 128 dimensions and several bases.",
        close=(5e-3, 0.0),  # float32 loses as much of an angle of 5,000 radians
        rough=(0.15, 0.0),
    ),
    "apply_rotary_emb": Task(
        rope.apply_rotary_emb,
        results=("the turned queries", "the turned keys"),
        kind="each a torch.Tensor",
        axes=HEAD_AXES,
        model=_apply_rotary_emb,
        stages=dict(which=WHICH) | TURN,
        properties=APPLY_PROPERTIES,
        trials=_apply_rotary_emb_trials,
        tried="Tried on several shapes, with fewer key heads too, at near and far positions, in three types, "
        "and on tables that do not fit.",
        surplus="three_results",
    ),
    "rotary_attention": Task(
        rope.rotary_attention,
        results=("the result",),
        axes=HEAD_AXES,
        model=_rotary_attention,
        stages=ATTENTION,
        properties=ATTENTION_PROPERTIES,
        trials=_rotary_attention_trials,
        tried="Tried on several shapes, on 1 to 40 tokens, at near and far positions.",
        deepest=2,
    ),
    "add_positions": Task(
        lambda x, P, start_pos=0: x + P[start_pos : start_pos + x.shape[1]],
        results=("the sum",),
        axes=("batch row", "token", "dimension"),
        model=_add_positions,
        stages=dict(rows=LOOKED_UP, sum=SUM),
        properties=ADD_PROPERTIES,
        trials=_add_positions_trials,
        tried="Tried on several shapes, up to the table's last row, past its end and before its start.",
        refusal="IndexError",
    ),
}


@cache
def trials_of(exercise: str) -> Trials:
    """The same random inputs in every session."""
    generator = torch.Generator().manual_seed(SEED)
    draw = partial(torch.randn, generator=generator, dtype=torch.float32)
    return EXERCISES[exercise].trials(lambda *shape: draw(shape))


def combinations(exercise: Task, count: int) -> Iterator[dict[str, str]]:
    """Every choice of `count` mistakes, {stage: key}, no two of them in one stage."""
    ways = ((s, key) for s, stage in exercise.stages.items() for key in stage)
    wrong = [(stage, key) for stage, key in ways if key != "right"]
    for chosen in itertools.combinations(wrong, count):
        if len(dict(chosen)) == count:
            yield dict(chosen)


def with_mistakes(exercise: Task, chosen: dict[str, str]) -> Callable:
    """The exercise done with the mistakes {stage: key}, and right in all other stages."""
    ways = {s: stage[chosen.get(s, "right")] for s, stage in exercise.stages.items()}
    return partial(exercise.model, SimpleNamespace(**ways))
