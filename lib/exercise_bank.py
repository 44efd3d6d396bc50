"""The book's exercises, chapter by chapter, in the order in which they are numbered.

A chapter shows one with `exercise("table-cost")`; `progress()` shows how far the reader is.
Right answers are plain arithmetic here; each chapter's worked solution computes them anew.
"""

import math
from collections.abc import Callable

from lib import code_check
from lib.answers import Choice, Choices, Number, Numbers, Shape
from lib.exercises import Exercise, Progress
from lib.scaling import ntk_base
from lib.shapes import B, T, d, d_head, h

ROWS = 2_048  # of the exercises' learned table
WRITTEN_ON = "07_exercises"  # functions are written there, after the questions


def exercise(name: str) -> Exercise:
    """The exercise of that name. Raises ValueError, with all names, for another."""
    known = {one.name: one for chapter in CHAPTERS.values() for one in chapter}
    if name not in known:
        raise ValueError(f"name: got {name!r}, want one of {', '.join(known)}")
    return known[name]


def progress() -> Progress:
    """How far the reader has come with all of them, and with the functions checked here."""
    exercises = {one: page for page, several in CHAPTERS.items() for one in several}
    written = len(code_check.EXERCISES)  # the book numbers these too
    after = [page > WRITTEN_ON for page in exercises.values()]
    return Progress(
        exercises,
        functions=code_check.reports,
        on_function=code_check.on_report,
        numbers=[n + written * later for n, later in enumerate(after, 1)],
    )


# --- Chapter 1: learned positions -----------------------------------------------------

SUM_OF_ROWS = Exercise(
    "sum-of-rows",
    "The shape of the sum",
    "A batch of 3 sequences of 7 tokens, vectors of width 16, and a position table of 50 "
    "rows. What shape does `E[ids] + P[:7]` have?",
    answers=[
        Shape(
            "Shape",
            (3, 7, 16),
            right="The seven rows `[7, 16]` are repeated for each of the three sequences.",
            otherwise="Write the two shapes below each other, the last axes aligned.",
            mistakes={
                (7, 16): "That is the shape of `P[:7]`. The three sequences keep their"
                " vectors.",
                (3, 7, 32): "That is what concatenating would give. Adding keeps the "
                "width.",
                (3, 14, 16): "The rows are no further tokens; they are added to "
                "tokens.",
                (3, 50, 16): "Of the 50 rows only the slice takes part: one for each "
                "token.",
                (3, 112): "Nothing is flattened: a token's vector keeps its own axis.",
                (21, 16): "The sequences are not joined: batch and tokens stay two "
                "axes.",
                (1, 7, 16): "One is how the missing axis starts; broadcasting then "
                "repeats it.",
            },
        )
    ],
    hints=[
        "What shape does `E[ids]` have alone, and what shape `P[:7]`?",
        "Shapes are lined up from the right. An axis that one of them lacks is repeated as "
        "often as the other one asks.",
    ],
    solution="`E[ids]` is `[3, 7, 16]` and `P[:7]` is `[7, 16]`. Lined up from the right the "
    "sevens and the sixteens meet, the batch axis is repeated, and the sum is `[3, 7, 16]`. "
    "How many rows the table has does not show.",
)

SILENT_ROWS = Exercise(
    "silent-rows",
    "What stops, and what does not",
    "A bare tensor `bare` has the shape `[10, 8]`, and `x`, three tokens in each of two "
    "sequences, the shape `[2, 3, 8]`. Which of these lines raise an error?",
    answers=[
        Choices(
            "Lines that raise",
            (
                "`bare[12]`",
                "`bare[-1]`",
                "`bare[12:15]`",
                "`x + bare[8:11]`",
                "`x + bare[9:12]`",
            ),
            ("`bare[12]`", "`x + bare[8:11]`"),
            right="An index is checked, and two rows do not fit three tokens. The others "
            "pass in silence.",
            mistakes={
                "`bare[12]`": "Think again about `bare[12]`: a single index is looked up, "
                "not clipped.",
                "`bare[-1]`": "Think again about `bare[-1]`: Python counts from the end.",
                "`bare[12:15]`": "Think again about `bare[12:15]`: what does a slice do "
                "that starts past the end?",
                "`x + bare[8:11]`": "Think again about `bare[8:11]`: how many rows come "
                "back, and can so many be added to three tokens?",
                "`x + bare[9:12]`": "Think again about `bare[9:12]`: how many rows come "
                "back, and what does broadcasting do with so many?",
            },
        )
    ],
    hints=[
        "Say for each line how many rows come back before anything is added.",
        "A slice is clipped to what is there. Broadcasting repeats an axis of one, and "
        "only of one.",
    ],
    solution="`bare[12]` raises, for an index is checked. `bare[-1]` is the last row and "
    "`bare[12:15]` is empty, both without a word. `bare[8:11]` has two rows, which do not fit "
    "three tokens: an error. `bare[9:12]` has one, and that one is given to all three tokens.",
)

# --- Chapter 2: rotary ----------------------------------------------------------------


def _turned(angle: float) -> tuple[float, float]:
    """Where the pair (2, 0) is after a turn."""
    return 2 * math.cos(angle), 2 * math.sin(angle)


TURNED_PAIR = Exercise(
    "turned-pair",
    "Turn a pair by hand",
    "A head has $d_{\\mathrm{head}} = 8$ and the base is 10,000. Pair 1 of a query, its "
    "dimensions 2 and 3, holds $(2, 0)$. Where is it at position 10? Two or three decimals "
    "are enough.",
    answers=[
        Numbers(
            "The pair at position 10",
            _turned(1),
            right="It has turned by 10 times 0.1: one radian, anticlockwise.",
            otherwise="Find the angle first, and then where a point at that angle is.",
            mistakes={
                _turned(-1): "That is a turn clockwise. RoPE turns the other way.",
                (
                    math.cos(1),
                    math.sin(1),
                ): "The point starts at a distance of 2 from the "
                "origin, and a turn keeps its distance.",
                _turned(math.radians(1)): "That is one degree. Angles are in radians.",
                _turned(1)[::-1]: "The two numbers are there, in the other order.",
                _turned(10): "That is how far pair 0 turns. Pairs are counted from 0.",
                _turned(
                    0.1
                ): "That is a turn by a tenth of a radian. Check the exponent, and that "
                "the position is in the angle.",
                _turned(100): "The minus in the exponent is missing: pair 1 is slower "
                "than pair 0, not faster.",
                _turned(10 * 10_000 ** (-1 / 8)): "The factor 2 in the exponent is "
                "missing: it is $-2i$ over the head's width.",
                _turned(
                    10 * 10_000 ** (-2 / 32)
                ): "The exponent divides by the width of "
                "a head, not by that of the token's vector.",
                (2, 0): "So it stays only at position 0.",
            },
            tolerance=5e-3,
        )
    ],
    hints=[
        "How far does pair 1 turn for one position? How far for ten?",
        "The pair starts on the first axis at a distance of 2 and stays on its circle. "
        "What are the coordinates of a point at angle $a$ on that circle?",
    ],
    solution="$\\theta_1 = 10000^{-2/8} = 0.1$, so at position 10 the pair has turned by 1 "
    "radian, and $(2, 0)$ has become $(2 \\cos 1, 2 \\sin 1)$, about $(1.081, 1.683)$.",
)

EQUAL_SCORES = Exercise(
    "equal-scores",
    "Which scores are equal?",
    "The same query $q$ and key $k$ are put at other places. Where is their score the one "
    "they have with $q$ at 20 and $k$ at 13?",
    answers=[
        Choices(
            "The same score",
            (
                "q at 7, k at 0",
                "q at 13, k at 20",
                "q at 1,020, k at 1,013",
                "q at 27, k at 13",
                "q at 13, k at 13",
            ),
            ("q at 7, k at 0", "q at 1,020, k at 1,013"),
            right="In both the query stands seven tokens after the key.",
            mistakes={
                "q at 7, k at 0": "Think again about 7 and 0. Is there anything special "
                "about a key that is not turned at all?",
                "q at 13, k at 20": "Think again about 13 and 20. Does the score know who "
                "comes first?",
                "q at 1,020, k at 1,013": "Think again about 1,020 and 1,013. Does it "
                "matter how far down the text the two stand?",
                "q at 27, k at 13": "Think again about 27 and 13. How far apart are they?",
                "q at 13, k at 13": "Think again about 13 and 13. Which angle is left "
                "between two vectors turned alike?",
            },
        )
    ],
    hints=[
        "Write down $m - n$, the query's position less the key's, for each line.",
        "The score is a sum of cosines of an offset plus a phase. Is such a sum the same "
        "for an offset and its opposite?",
    ],
    solution="The score depends on the signed offset $m - n$ alone. It is 7 for the given "
    "pair, for 7 and 0, and for 1,020 and 1,013. For 13 and 20 it is −7, which is another "
    "score.",
)

# --- Chapter 3: the offset test -------------------------------------------------------

PAST, UNTRAINED, DEFINED = FAILURES = (
    "Past the table: there is no row",
    "An untrained row",
    "Defined, but out of distribution",
)

THREE_FAILURES = Exercise(
    "three-failures",
    "Name the failure",
    "Three models are asked about the token at position 70 of a text. Which of the three "
    "failures does each of them meet?",
    answers=[
        Choice(
            "A learned table of 64 rows, all of them trained",
            FAILURES,
            PAST,
            right="Rows 0 to 63 are all there are.",
            mistakes={
                UNTRAINED: "To be untrained a row has to be there. Does a table of 64 rows have a row 70?",
                DEFINED: "A table has no formula that would go on past its last row.",
            },
        ),
        Choice(
            "A learned table of 1,024 rows, trained on texts of 64 tokens",
            FAILURES,
            UNTRAINED,
            right="Row 70 is there, as random as on the first day.",
            mistakes={
                PAST: "The table has 1,024 rows, so there is a row 70. What is in it?",
                DEFINED: "Close: it computes and is bad. But what it adds is a row that no "
                "gradient has touched, and that has a name of its own.",
            },
        ),
        Choice(
            "RoPE, trained on texts of 64 tokens",
            FAILURES,
            DEFINED,
            right="The angle exists and is right; such distances were never trained on.",
            mistakes={
                PAST: "A formula has no rows to run out of.",
                UNTRAINED: "RoPE has no rows that could be trained or not.",
            },
        ),
    ],
    hints=[
        "Ask of each model first whether there is anything to look up or compute at 70.",
        "If there is: did training ever touch it?",
    ],
    solution="The small table has no row 70. The large one has a row that training never "
    "reached. RoPE has an angle, the right one, and a model that has never seen two tokens so "
    "far apart. Only the first of the three stops.",
)

# --- Chapter 4: the two side by side --------------------------------------------------

WHAT_MOVES = Exercise(
    "what-moves",
    "What does a shift change?",
    "A text of five tokens is read twice, at positions 0 to 4 and at positions 5 to 9. Which "
    "of these differ between the two readings, in the first layer?",
    answers=[
        Choices(
            "With a learned table",
            ("queries", "keys", "values", "scores"),
            ("queries", "keys", "values", "scores"),
            right="All of them: they are computed from a sum that has other rows in it.",
            mistakes={
                "queries": "Look at the queries again: are they computed before the row is "
                "added, or after?",
                "keys": "Look at the keys again: are they computed before the row is added, "
                "or after?",
                "values": "Look at the values again: of which vector are they computed?",
                "scores": "Look at the scores again: is there anything that would make "
                "other rows give equal products?",
            },
        ),
        Choices(
            "With RoPE",
            ("queries", "keys", "values", "scores"),
            ("queries", "keys"),
            right="Queries and keys turn; the angles between them and the values stay.",
            mistakes={
                "queries": "Look at the queries again: each is turned by its position.",
                "keys": "Look at the keys again: each is turned by its position.",
                "values": "Look at the values again: which tensors does RoPE turn?",
                "scores": "Look at the scores again: query and key turn by the same amount "
                "when both move by five.",
            },
        ),
    ],
    hints=[
        "At which place in the model does each method act, and on what?",
        "For the scores ask whether the offset between two tokens has changed, and whether "
        "the method sees only that.",
    ],
    solution="The learned rows are part of the token's vector, so queries, keys, values and "
    "with them the scores change. RoPE turns queries and keys, each by its position; values "
    "are left alone, and scores see the offsets, which a shift leaves as they were.",
)

# --- Chapter 5: judgement -------------------------------------------------------------

NEXT_POSITION = Exercise(
    "next-position",
    "The next token’s position",
    "A prompt of 15 tokens was read at positions 0 to 14, and its keys are in the cache. By "
    "which position are the query and the key of the next token turned?",
    answers=[
        Number(
            "Position",
            15,
            right="The one after the last. The cached keys stay as they are.",
            otherwise="Which positions are taken?",
            mistakes={
                0: "That forgets the start position: no error, and wrong scores.",
                14: "That is where the last token of the prompt stands already.",
                16: "That leaves a gap: positions are counted from 0.",
                1: "That counts the tokens of this call, not those of the text.",
            },
            unit="positions",
        )
    ],
    hints=["The model must see what it would see if the whole text were read at once."],
    solution="By position 15. That is where the token would stand if all 16 were read at once, "
    "and decoding with a cache has to give the same scores.",
)

INTERPOLATED = Exercise(
    "interpolated-position",
    "Position interpolation",
    "A model was trained at 2,048 tokens and is to read 8,192 by position interpolation. "
    "The token at 6,000 is turned as if it stood at which position?",
    answers=[
        Number(
            "Position",
            1_500,
            right="6,000 divided by 4. All 8,192 positions then lie within the trained range.",
            otherwise="By which factor has the text grown, and which way does it go?",
            mistakes={
                24_000: "That stretches where it should squeeze: it leads further out.",
                6_000: "That is the position without interpolation, past those trained on.",
                3_952: "Positions are not moved back by 2,048; they are scaled.",
                1_904: "That wraps around at the trained length. Then two tokens would share a "
                "place.",
                3_000: "That is a factor of 2. How many times 2,048 is 8,192?",
            },
            unit="positions",
            tolerance=5e-4,
        )
    ],
    hints=[
        "All positions of the long text have to fit into the trained range, in order.",
        "The length of the long text has to become the trained length, and every position with "
        "it by the same factor.",
    ],
    solution="The text is 8192 / 2048 = 4 times as long, so positions are divided by 4: 6000 / 4 "
    "= 1500. Neighbours are then a quarter of a position apart, which is new to the model, so "
    "some fine-tuning usually follows.",
)

# --- Chapter 6: the picture -----------------------------------------------------------

HOW_OFTEN = Exercise(
    "how-often",
    "How often does each act?",
    "Follow one token through a decoder of 12 layers.",
    answers=[
        Number(
            "With a learned table: how many position rows are added to it?",
            1,
            right="Once, before the first block.",
            otherwise="Where in the diagram does the table stand?",
            mistakes={
                12: "The table stands before the blocks, not in each of them.",
                0: "Then the model would not know the position at all.",
                24: "Queries and keys get no rows of their own: the vector did, earlier.",
            },
            unit="rows",
        ),
        Number(
            "With RoPE: in how many layers are its query and key turned?",
            12,
            right="In every one, because every layer makes new queries and keys.",
            otherwise="Where in the diagram does the turn stand?",
            mistakes={
                1: "The turn is not carried along: the next layer makes a query and a key "
                "anew, not turned.",
                0: "RoPE does act: queries and keys turn before they meet.",
                24: "That counts query and key one by one; the question is about layers.",
                11: "No layer is left out, neither the first nor the last.",
            },
            unit="layers",
        ),
    ],
    hints=[
        "One of the two acts before the first block, the other inside attention.",
        "Which of the things that are changed does the next layer compute anew?",
    ],
    solution="The learned row is added 1 time, before the first block, and is carried along in "
    "the token's vector. RoPE turns the query and the key in all 12 layers, because each layer "
    "computes its own.",
)

# --- Chapter 7: exercises -------------------------------------------------------------

TABLE_COST = Exercise(
    "table-cost",
    "What does it cost?",
    f"$B = {B}$, $T = {T}$, $h = {h}$, $d_{{\\mathrm{{head}}}} = {d_head}$, so $d = {d}$. How "
    f"many parameters does a learned position table for {ROWS:,} positions have? And RoPE?",
    answers=[
        Number(
            "Parameters of the learned table",
            ROWS * d,
            right=f"{ROWS:,} rows of {d} numbers.",
            otherwise="How many rows are there, and how many numbers are in one?",
            mistakes={
                ROWS
                * d_head: "That is as wide as one head. A row is added to the token's "
                "whole vector.",
                ROWS: "That is how many rows there are. How many numbers are in one?",
                ROWS
                * h: "That is one number for each head. How many are in a whole row?",
                ROWS
                * d
                * 2: "Twice as many as there are: queries and keys share what is added "
                "before them, and so do the sequences of a batch.",
                ROWS * d * h: "The width $d$ counts all heads already.",
                ROWS * T: "The text's length is not the width of a row.",
                ROWS * d * T: "The table does not grow with the text.",
                (ROWS - 1)
                * d: "Positions are counted from 0, so there is a row for 0 too.",
                (ROWS + 1) * d: "Position 2,048 has no row: the last one is 2,047.",
                d * d: "That is a projection's matrix. A table has a row per position.",
            },
            unit="parameters",
        ),
        Number(
            "Parameters of RoPE",
            0,
            right="The angles follow from a formula.",
            otherwise="Which of RoPE's numbers does training change?",
            mistakes={
                ROWS * d: "That is what a learned table costs. What does RoPE learn?",
                ROWS
                * d_head
                // 2: "That many complex numbers can be kept in memory, but "
                "nobody trains them.",
                ROWS
                * d_head: "Cosines and sines may be kept in memory, but nobody trains "
                "them.",
                d_head // 2: "The frequencies are computed from the base, not learned.",
                1: "The base is chosen before training and stays.",
            },
            unit="parameters",
        ),
    ],
    hints=[
        "There is one row for each position. To what is a row added?",
        "A parameter is a number that training changes. Which of RoPE's numbers are?",
    ],
    solution=f"The table has a row of width $d$ for each position: {ROWS:,} times {d} is "
    f"{ROWS * d:,}. RoPE has 0: its angles are a formula, and the table of cosines and sines "
    "that a program may precompute is not learned.",
)

TWICE_AS_LONG = Exercise(
    "twice-as-long",
    "Twice as long",
    "Two models were trained at 2,048 tokens, one with a learned table of 2,048 rows and one "
    "with RoPE. Each is asked to read 4,096. What happens?",
    answers=[
        Choice(
            "The learned table: can it compute?",
            (
                "Yes, with the last row once more",
                "No: there is no row, and how that shows depends on framework and device",
                "No, and it always raises an IndexError",
            ),
            "No: there is no row, and how that shows depends on framework and device",
            right="An error, if you are lucky: some give zeros, some the last row.",
            mistakes={
                "Yes, with the last row once more": "Some compilers do clamp the index like that. "
                "Is that a row for position 4,000?",
                "No, and it always raises an IndexError": "There is no row, but not every "
                "framework and device says so.",
            },
        ),
        Choice(
            "RoPE: can it compute?",
            (
                "No: position 4,000 was not trained",
                "Yes, whatever the program",
                "Yes, if its precomputed table and its cache reach that far",
            ),
            "Yes, if its precomputed table and its cache reach that far",
            right="The formula has no end; tables and caches in programs have.",
            mistakes={
                "No: position 4,000 was not trained": "Whether something was trained and "
                "whether it can be computed are two questions.",
                "Yes, whatever the program": "The formula has no end. Has the program's "
                "table of cosines and sines one?",
            },
        ),
        Choice(
            "RoPE, unchanged: are its predictions any good?",
            (
                "As good as at 2,048, because scores depend on the offset alone",
                "A little worse",
                "Usually useless, unless the frequencies are rescaled",
            ),
            "Usually useless, unless the frequencies are rescaled",
            right="Measured perplexities explode at twice the training length.",
            mistakes={
                "As good as at 2,048, because scores depend on the offset alone": "They do, "
                "and at 4,096 there are offsets that no training text had.",
                "A little worse": "Look at the measurements in chapter 3 once more: how "
                "large is the perplexity at twice the length?",
            },
        ),
    ],
    hints=[
        "Two questions, to be answered apart: can it compute an answer, and is the answer any "
        "good?",
        "For the first, look for a table that ends. For the second, only a measurement counts.",
    ],
    solution="The learned table has no row past 2,047, and how that shows depends on the "
    "framework and the device. RoPE computes if its table and the cache are long enough, and "
    "its quality collapses: unmodified models at twice their training length are usually "
    "useless. Rescaling the frequencies is the remedy, mostly with some fine-tuning.",
)


def _thetas(exponent: Callable[[int], float]) -> tuple[float, ...]:
    return tuple(10_000 ** exponent(i) for i in range(d_head // 2))


FOUR_ANGLES = Exercise(
    "four-angles",
    "Angles",
    f"With $d_{{\\mathrm{{head}}}} = {d_head}$ and base 10,000: what are the four $\\theta_i$? By "
    "what angle has pair 0 turned at position 3?",
    answers=[
        Numbers(
            "The four frequencies, pair 0 first",
            _thetas(lambda i: -2 * i / d_head),
            right="Each pair is ten times slower than the one before.",
            otherwise="Work out each exponent by itself first.",
            mistakes={
                _thetas(
                    lambda i: 2 * i / d_head
                ): "The minus in the exponent is missing: "
                "pairs get slower, not faster.",
                _thetas(
                    lambda i: -i / d_head
                ): "The factor 2 in the exponent is missing.",
                _thetas(
                    lambda i: -2 * (i + 1) / d_head
                ): "Here $i$ is counted from 0, not from 1.",
                _thetas(lambda i: -2 * i / d): "The exponent divides by the width of a "
                "head, not by that of the token's vector.",
                _thetas(
                    lambda i: -4 * i / d_head
                ): "The exponent divides by $d_{\\mathrm{"
                "head}}$, not by the number of pairs.",
                _thetas(lambda i: -2 * i / d_head)[
                    ::-1
                ]: "The right numbers, in the other order: pair 0 is the fastest.",
                tuple(
                    math.degrees(theta) for theta in _thetas(lambda i: -2 * i / d_head)
                ): "Those are degrees. Angles are in radians.",
                tuple(
                    2 * math.pi / theta for theta in _thetas(lambda i: -2 * i / d_head)
                ): "Those are the wavelengths, in positions. Asked for is the turn for one.",
            },
            unit="rad",
            tolerance=1e-3,
        ),
        Number(
            "The angle of pair 0 at position 3, in radians",
            3,
            right="Three times one radian.",
            otherwise="How far does pair 0 turn for one position?",
            mistakes={
                math.degrees(
                    3
                ): "That is in degrees. The answer is asked for in radians.",
                3
                / (
                    2 * math.pi
                ): "That is in turns. The answer is asked for in radians.",
                1: "That is its turn for one position. It stands at position 3.",
                0.3: "That is pair 1. Pairs are counted from 0.",
                0: "Pair 0 is the fastest, not one that stands still.",
                4: "Positions are counted from 0: at position 3 it has turned three times.",
                2: "At position 0 nothing has turned, at position 1 once. And at 3?",
            },
            unit="rad",
            tolerance=1e-3,
        ),
    ],
    hints=[
        "Put $i = 0, 1, 2, 3$ into $10000^{-2i/8}$.",
        "At position $m$ a pair has turned $m$ times as far as at position 1. Angles are in "
        "radians.",
    ],
    solution="$10000^{-2i/8} = 10^{-i}$, so the frequencies are 1, 0.1, 0.01 and 0.001 radians "
    "for each position. Pair 0 at position 3 has turned by 3 times 1: 3 radians.",
)


def _heads(name: str, right: str, otherwise: str) -> Shape:
    return Shape(
        f"Shape of {name}",
        (B, T, h, d_head),
        right=right,
        otherwise=otherwise,
        mistakes={
            (
                B,
                T,
                d,
            ): "Heads and their dimensions are flattened there. RoPE works head by "
            "head and leaves the two axes apart.",
            (
                B,
                h,
                T,
                d_head,
            ): "Heads come before tokens there. That is how attention wants "
            "them, one step later.",
            (B, T, h, d_head // 2): "That counts pairs. Each has two numbers.",
            (
                B,
                T,
                h,
                d_head // 2,
                2,
            ): "That is a view in pairs, made for turning them. "
            "Afterwards it is folded back.",
            (T, d_head // 2): "That is the shape of the rotation table.",
            (T, h, d_head): "The batch has disappeared.",
            (B, T, d_head): "The heads have disappeared.",
            (
                B,
                T,
                h,
                2 * d_head,
            ): "Nothing is appended: the turned numbers take the place "
            "of the old ones.",
        },
    )


TURNED_STAYS = "A turned pair is a pair, so nothing changes its shape."
WHICH_BEFORE = "Turning a pair gives a pair. Which shape was there before?"

SHAPES_AFTER = Exercise(
    "shapes-after-rope",
    "Shapes after the turn",
    f"$B = {B}$, $T = {T}$, $h = {h}$, $d_{{\\mathrm{{head}}}} = {d_head}$. What shapes do Q, K "
    "and V have after RoPE, in the order of Llama 2's `apply_rotary_emb`? Does V change?",
    answers=[
        _heads("Q", TURNED_STAYS, WHICH_BEFORE),
        _heads("K", TURNED_STAYS, WHICH_BEFORE),
        _heads(
            "V",
            right="The shape it had before, like the other two.",
            otherwise="Is V turned? Which shape did it have before?",
        ),
        Choice(
            "Does V change?",
            ("Yes, it is turned as K is", "Yes, its shape changes", "No"),
            "No",
            right="RoPE touches Q and K only.",
            mistakes={
                "Yes, it is turned as K is": "V is not rotated: then the output would "
                "depend on where the text stands.",
                "Yes, its shape changes": "None of the three changes its shape.",
            },
        ),
    ],
    hints=[
        "What is the shape of a pair before it is turned, and after?",
        "Look at which tensors `apply_rotary_emb` takes, and which it returns.",
    ],
    solution=f"All three are `[{B}, {T}, {h}, {d_head}]`. Q and K have been turned pair by pair, "
    "which keeps their shape; V is not an argument of the function and stays as it is, bit for "
    "bit.",
)

MOVED_PROMPT = Exercise(
    "moved-prompt",
    "What did your friend measure?",
    "A friend writes: “I fed my RoPE model a prompt of five tokens whose positions start at "
    "1,000 instead of 0, and the answers were the same. So it extrapolates.”",
    answers=[
        Choice(
            "What has been measured?",
            (
                "That the model reads texts of 1,000 tokens",
                "That a short text scores the same wherever it starts",
                "That position 1,000 was seen in training",
                "That RoPE pays no attention to positions",
            ),
            "That a short text scores the same wherever it starts",
            right="The offsets in it are as small as ever. A long text was not tried.",
            mistakes={
                "That the model reads texts of 1,000 tokens": "How many tokens did it read?",
                "That position 1,000 was seen in training": "The score would be the same "
                "had it never been seen. Which angles meet in a score?",
                "That RoPE pays no attention to positions": "Swap two tokens of the prompt "
                "and the scores do change.",
            },
        ),
        Number(
            "The largest offset between two tokens of that prompt",
            4,
            right="From the first to the fifth, wherever it starts.",
            otherwise="How far is it from the first of the five tokens to the last?",
            mistakes={
                5: "That counts the tokens, not the steps between them.",
                1_004: "That is where the last token stands. How far is it from the first?",
                1_000: "That is where the prompt starts. How far apart are its tokens?",
                0: "That is the offset of a token to itself.",
            },
            unit="positions",
        ),
    ],
    hints=["How far apart are the two most distant tokens of that prompt?"],
    solution="Scores see offsets, and the largest offset in the prompt is 4, whether it starts "
    "at 0 or at 1,000. Extrapolation would be a long text, in which offsets occur that training "
    "never had; nobody tried one here.",
)

# --- Chapter 9: the lab ---------------------------------------------------------------

AVERAGED = Exercise(
    "averaged-perplexity",
    "Two bytes, one perplexity",
    "Position 70 is measured on two texts. In the first the model gave the byte that came the "
    "probability 1/2, in the second 1/8. What is its byte perplexity at position 70?",
    answers=[
        Number(
            "Byte perplexity",
            4,
            right="The losses are averaged, so the perplexities 2 and 8 meet in the middle of "
            "a scale of ratios.",
            otherwise="Take the loss of each byte first, then their mean, then go back.",
            mistakes={
                5: "That is the mean of 2 and 8. What is averaged are the losses, their "
                "logarithms.",
                3.2: "That is one over the mean probability. The logarithm comes before the "
                "mean.",
                1.386: "That is the mean loss in nats. One step is left.",
                2: "That is the mean loss in bits. How many bytes is that a choice among?",
                16: "That is $e$ to the power of both losses together. Halve their sum before "
                "you go back.",
                0.25: "That is a probability. Perplexity is one over it.",
            },
            tolerance=0.005,
            unit="bytes",
        )
    ],
    hints=[
        "The loss of a byte is $-\\ln p$. What are the two losses?",
        "Perplexity is $e$ to the power of the mean loss.",
    ],
    solution="The losses are $\\ln 2$ and $\\ln 8$. Their mean is $\\tfrac12 \\ln 16 = \\ln 4$, so "
    "the perplexity is 4: as if the model had chosen among four bytes each time.",
)

WHAT_WAS_MEASURED = Exercise(
    "what-was-measured",
    "What was measured, and what was not",
    "Three kinds of decoders were trained on 64 bytes at a time and read to 1,024. Which of these "
    "sentences does the measurement support?",
    answers=[
        Choices(
            "Supported",
            (
                "Just past 64 the model with RoPE is nearly as good as before",
                "A learned table of 1,024 rows serves a text of 1,024 bytes",
                "At 1,000 the model with RoPE is far worse than at 60",
                "A text past 64 does no harm to a model without positions",
                "A model of a billion parameters would give the same numbers",
            ),
            (
                "Just past 64 the model with RoPE is nearly as good as before",
                "At 1,000 the model with RoPE is far worse than at 60",
            ),
            right="Both about RoPE hold, in every seed. They are not in contradiction: the "
            "loss comes, and comes later.",
            mistakes={
                "Just past 64 the model with RoPE is nearly as good as before": "Set the "
                "explorer to RoPE and compare the ranges on both sides of 64.",
                "A learned table of 1,024 rows serves a text of 1,024 bytes": "It has the "
                "rows. How good is it where they were not trained?",
                "At 1,000 the model with RoPE is far worse than at 60": "Set the explorer to "
                "RoPE and go to the last range.",
                "A text past 64 does no harm to a model without positions": "It has no "
                "positions to run out of. Look at its curve all the same.",
                "A model of a billion parameters would give the same numbers": "Was one "
                "trained here?",
            },
        )
    ],
    hints=[
        "Go through the sentences with the explorer, one range of positions at a time.",
        "Ask of each sentence which model it speaks of. Is it one that was trained here?",
    ],
    solution="The two sentences about RoPE. Rows that exist need not be trained, a model without "
    "positions is lost on long texts too, and nothing here was as large as a billion "
    "parameters.",
)

NTK_BASE = Exercise(
    "ntk-base",
    "A base for texts four times as long",
    "The lab's decoders have $d_{\\mathrm{head}} = 32$ and the base 10,000. Which base does "
    "NTK-aware scaling take for a factor of 4? To the nearest hundred is enough.",
    answers=[
        Number(
            "Base",
            ntk_base(32, 4),
            right="A little more than four times the old one, so that the slowest pair slows "
            "by just four.",
            otherwise="The base is multiplied by a power of the factor. Which power?",
            mistakes={
                40_000: "That is four times the base. The slowest pair's exponent is not quite "
                "$-1$, so that is not quite enough.",
                10_000
                * 4 ** (30 / 32): "The exponent is upside down: it is larger than one.",
                10_000
                * 4 ** (16 / 14): "That counts pairs. The formula counts dimensions.",
                2_500: "That divides. A smaller base makes every pair but the first faster.",
                160_000: "That multiplies by the factor's square.",
                10_000: "That changes nothing.",
            },
            tolerance=0.0015,
        )
    ],
    hints=[
        "The slowest pair turns by $b^{-(d - 2)/d}$ a token, with $d$ for $d_{\\mathrm{head}}$ "
        "and $b$ for the base. By how much is $b$ to grow, that this becomes four times smaller?",
        "The base is multiplied by $s^{d/(d - 2)}$, where $s$ is the factor.",
    ],
    solution=f"$10{{,}}000 \\cdot 4^{{32/30}}$ is about {ntk_base(32, 4):,.0f}. Raised to the slowest "
    "pair's exponent, $-30/32$, the factor of it becomes $4^{-1}$; the fastest pair has the "
    "exponent 0 and is not changed.",
)

# --- Chapter 10: layouts --------------------------------------------------------------

PARTNERS = Exercise(
    "partners",
    "Who turns with whom?",
    "A head has $d_{\\mathrm{head}} = 128$, and all of it is turned. With which dimension does "
    "dimension 5 form a pair?",
    answers=[
        Number(
            "In the interleaved layout",
            4,
            right="Pairs are $(2i, 2i + 1)$, so an odd dimension has its partner before it.",
            otherwise="Write down the first three pairs. In which of them is 5?",
            mistakes={
                6: "Then 6 would be in two pairs. The first pair is (0, 1).",
                69: "That is its partner in the half-split layout.",
                10: "That is twice 5. Which pair is dimension 5 itself in?",
                11: "That is the second dimension of pair 5. Which pair is dimension 5 in?",
            },
        ),
        Number(
            "In the half-split layout",
            69,
            right="Half a head further: $5 + 64$.",
            otherwise="How many pairs has the head, and how far apart are the two of a pair?",
            mistakes={
                4: "That is its partner in the interleaved layout.",
                68: "That counts from one. Dimension 0 goes with 64.",
                122: "That is from the end backwards. The second half is not reversed.",
                123: "That is 128 less 5. The second half is not reversed.",
                133: "The head has no such dimension. How far away is its half?",
                37: "That is a quarter of the head further.",
            },
        ),
    ],
    hints=[
        "Write down the first pairs of each layout.",
        "Interleaved pairs are neighbours. Half-split pairs are half a head apart.",
    ],
    solution="Interleaved pairs are (0, 1), (2, 3), (4, 5): the partner is 4. Half-split pairs are "
    "(0, 64), (1, 65) and so on: the partner is 5 + 64, which is 69.",
)

WHAT_IS_CONVERTED = Exercise(
    "what-is-converted",
    "Which weights are put in another order?",
    "A model was trained with interleaved pairs and shall run in code that splits heads in "
    "halves. It has 8 query heads and 2 key and value heads.",
    answers=[
        Choices(
            "Weights whose rows are put in another order",
            ("`wq`", "`wk`", "`wv`", "`wo`", "the token table"),
            ("`wq`", "`wk`"),
            right="Only what makes the queries and the keys, for only they are turned.",
            mistakes={
                "`wq`": "Think again about `wq`: are queries turned?",
                "`wk`": "Think again about `wk`: are keys turned?",
                "`wv`": "Think again about `wv`: is a value ever turned?",
                "`wo`": "Think again about `wo`: it reads the values, in the order in which "
                "`wv` made them.",
                "the token table": "Think again about the token table: a pair is two "
                "dimensions of a head, not of a token's vector.",
            },
        ),
        Number(
            "Heads in `wk`, for the conversion",
            2,
            right="Its own number. With another one, other rows would be put together, and nothing "
            "would raise.",
            otherwise="How many key heads has the model?",
            mistakes={
                8: "Those are the query heads. Keys have fewer here.",
                4: "So many queries share one key head.",
                10: "That counts both kinds.",
                1: "Then the rows of the two heads would be mixed.",
            },
            unit="heads",
        ),
    ],
    hints=[
        "Which of them makes something that RoPE turns?",
        "The rows of each head are put in order by themselves.",
    ],
    solution="`wq` with its 8 heads and `wk` with its 2. Values are never turned, so `wv` and `wo` stay.",
)

# --- Chapter 11: decoding -------------------------------------------------------------

AFTER_THE_PADDING = Exercise(
    "after-the-padding",
    "After the padding",
    "A prompt of 5 tokens is padded on the left to 8. The model has RoPE; padding is masked.",
    answers=[
        Number(
            "Counted by the mask: position of the prompt's first token",
            0,
            right="The padding before it is not counted.",
            otherwise="How many real tokens stand before it?",
            mistakes={
                3: "That counts the padding.",
                1: "Positions begin at 0 in this book, as in Llama's code.",
                -1: "That is what `cumsum - 1` gives the padding.",
            },
            unit="positions",
        ),
        Number(
            "And of the first new token",
            5,
            right="As many real tokens stand before it.",
            otherwise="How many real tokens stand before the new one?",
            mistakes={
                8: "That is its place in the padded row. The positions were counted without "
                "the padding.",
                4: "That is where the prompt's last token stands.",
                6: "Counted from 0, that is one too far.",
                0: "Then each new token would stand where the text begins.",
            },
            unit="positions",
        ),
        Number(
            "A prompt was turned as at 0 to 7, the padding counted. Where must its first new "
            "token be turned, that the scores are right?",
            8,
            right="The whole row is 3 too far, so the new token must be too.",
            otherwise="By how much is the whole prompt shifted? The new token must be shifted "
            "alike.",
            mistakes={
                5: "That mixes two counts: the prompt is shifted by 3 and the new token is not.",
                7: "The prompt's last token was turned there.",
                9: "That leaves out one position.",
                3: "That is how far the prompt is shifted.",
            },
            unit="positions",
        ),
    ],
    hints=[
        "Write the row down: three times padding, then the tokens. Number the tokens.",
        "Scores see offsets: the new token must be one position after the last.",
    ],
    solution="By the mask the tokens stand at 0 to 4, and the new one at 5. If the padding was "
    "counted they were turned as at 3 to 7, and the new one must be turned as at 8: a shift is "
    "harmless as long as it is the same for all.",
)

CHECK_SEES = Exercise(
    "what-the-check-sees",
    "What does the check see?",
    "A model reads a text once whole and once in pieces with a cache, and the outputs are "
    "compared. Which of these mistakes does that find?",
    answers=[
        Choices(
            "Found",
            (
                "New tokens are turned one position too late",
                "Every token is turned 100 positions too late",
                "There is no mask inside a later piece of several tokens",
                "The base is 500 instead of 10,000 throughout",
                "Values are rotated too, in both ways",
                "The cache ends before the text does",
            ),
            (
                "New tokens are turned one position too late",
                "There is no mask inside a later piece of several tokens",
                "The cache ends before the text does",
            ),
            right="Only what differs between the two ways is found.",
            mistakes={
                "New tokens are turned one position too late": "Look again at the late tokens: are all "
                "tokens of the text late, or only those after the prompt?",
                "Every token is turned 100 positions too late": "Look again at the shift of everything: "
                "which offsets does it change?",
                "There is no mask inside a later piece of several tokens": "Look again at the missing "
                "mask: what does a token see when the text is read whole, and in such a piece?",
                "The base is 500 instead of 10,000 throughout": "Look again at the base: which of the two "
                "ways has it?",
                "Values are rotated too, in both ways": "Look again at the values: what is in the cache, "
                "and what does the full pass compute?",
                "The cache ends before the text does": "Look again at the cache that ends: does the full "
                "pass need one?",
            },
        )
    ],
    hints=[
        "Ask of each mistake: is it made in both ways alike?",
        "Scores see offsets only.",
    ],
    solution="The late tokens, the missing mask and the cache that ends. A shift of everything, "
    "another base and rotated values are made alike in both ways. The shift is harmless; the "
    "other two need another check, such as one against a reference model.",
)

# --- Chapter 12: precision ------------------------------------------------------------

ROUNDED_POSITIONS = Exercise(
    "rounded-positions",
    "Rounded positions",
    "bfloat16 keeps 8 significant bits, so it holds every whole number up to 256, every second one "
    "up to 512 and every fourth one up to 1,024.",
    answers=[
        Number(
            "To what is position 1,003 rounded?",
            1_004,
            right="The multiples of 4 beside it are 1,000 and 1,004, and the second is nearer.",
            otherwise="Which multiples of 4 lie beside it? Which of them is nearer?",
            mistakes={
                1_003: "It takes ten bits to write that number.",
                1_000: "That is a multiple of 4, but not the nearest.",
                1_002: "That is a multiple of 2. This far out they are 4 apart.",
                1_024: "That is the next power of two. There are numbers before it.",
                256: "That is where whole numbers begin to be left out.",
            },
            unit="positions",
        ),
        Number(
            "How many different numbers are left of 0 to 1,023?",
            513,
            right="257 up to 256, 128 more up to 512, and 128 more up to 1,024, to which the last "
            "ones are rounded.",
            otherwise="Count three stretches: up to 256, up to 512, and the rest.",
            mistakes={
                512: "One is missing: is 0 counted, and what becomes of 1,023?",
                1_024: "Then each would keep a number of its own.",
                385: "That stops at 512.",
                257: "That stops at 256.",
                769: "That is for 0 to 4,095.",
                256: "That takes every fourth number throughout.",
            },
        ),
    ],
    hints=[
        "From which numbers on are they 2 apart, and from which on 4?",
        "Between a power of two and the next there are always equally many.",
    ],
    solution="1,003 lies between 1,000 and 1,004 and becomes 1,004. Up to 256 there are 257 numbers, "
    "with 0; 128 more from 258 to 512; 128 more from 516 to 1,024. Together 513.",
)

WHAT_MENDS_IT = Exercise(
    "what-mends-it",
    "What mends it?",
    "The frequencies of a model were rounded to bfloat16, each by up to $2^{-8}$ of its size.",
    answers=[
        Number(
            "A pair turns by about 0.25 radians a token. By how much may its angle be off at "
            "position 1,024?",
            1,
            right="$1{,}024 \\cdot 0.25 \\cdot 2^{-8}$: a whole radian.",
            otherwise="What is its angle there? And $2^{-8}$ of it?",
            mistakes={
                256: "That is the angle itself. How large a part of it is lost?",
                0: "0.25 itself is exact in bfloat16. How far off may a number near it be?",
                4: "That leaves out the pair's frequency.",
                1 / 1_024: "That is the error at position 1. It grows.",
                0.25: "That is the turn for one token.",
                0.00390625: "That is the part that is lost. Of which angle?",
            },
            tolerance=0.005,
            unit="rad",
        ),
        Choices(
            "What gives right angles?",
            (
                "`inv_freq.float()` before they are multiplied",
                "Computing cos and sin in float64 from them",
                "Rotating queries and keys in float32",
                "Computing the frequencies again from the base, in float32 or better",
                "Keeping `inv_freq` out of the cast to bfloat16",
                "Shorter texts",
            ),
            (
                "Computing the frequencies again from the base, in float32 or better",
                "Keeping `inv_freq` out of the cast to bfloat16",
            ),
            right="What was rounded away can be avoided or computed again. It cannot be brought "
            "back.",
            mistakes={
                "`inv_freq.float()` before they are multiplied": "Look again at the cast back: what does "
                "it put in place of the digits that are gone?",
                "Computing cos and sin in float64 from them": "Look again at cos and sin in float64: the "
                "cos of which angle?",
                "Rotating queries and keys in float32": "Look again at the rotation in float32: by which "
                "angle does it turn?",
                "Computing the frequencies again from the base, in float32 or better": "Look again at the "
                "base: was it rounded?",
                "Keeping `inv_freq` out of the cast to bfloat16": "Look again at the cast itself: which "
                "step took the digits?",
                "Shorter texts": "Look again at shorter texts: the error is smaller there. Is it gone?",
            },
        ),
    ],
    hints=[
        "The error of an angle is its position times the error of the frequency.",
        "Where could the digits that were lost still be found?",
    ],
    solution="The angle is $1{,}024 \\cdot 0.25 = 256$ radians, and $2^{-8}$ of it is 1 radian. Right "
    "angles come from frequencies that were not rounded: kept out of the cast, or computed again.",
)

# --- Chapter 13: longer contexts ------------------------------------------------------

PART_OF_A_TURN = Exercise(
    "a-part-of-a-turn",
    "A part of a turn",
    "A pair needs 16,384 tokens for one turn. The model was trained on texts of 4,096 tokens, and "
    "now reads one of 16,384.",
    answers=[
        Number(
            "Which part of a turn did the pair make in training?",
            0.25,
            right="So it has seen a quarter of the circle.",
            otherwise="How many tokens did it have, and how many does a whole turn need?",
            mistakes={
                4: "That is the quotient the other way round.",
                1: "A whole turn needs 16,384 tokens.",
                90: "That is in degrees. Which part of 360 is it?",
                1.5708: "That is in radians. Which part of $2\\pi$ is it?",
            },
            unit="turns",
        ),
        Number(
            "Which part does it make in the long text, if positions are interpolated by 4?",
            0.25,
            right="As far as in training, and no further.",
            otherwise="At which position does the last token seem to stand?",
            mistakes={
                1: "That is without interpolation.",
                4: "That is a pair that was made four times faster instead of slower.",
                0.0625: "That divides by 4 twice: the text is four times as long.",
            },
            unit="turns",
        ),
        Choice(
            "Which pairs does position interpolation slow down?",
            (
                "All, by the same factor",
                "Only those that made no full turn in training",
                "The slow ones more than the fast ones",
                "Only the fastest",
            ),
            "All, by the same factor",
            right="That is also its price: neighbours move together.",
            mistakes={
                "Only those that made no full turn in training": "That is close to YaRN's idea.",
                "The slow ones more than the fast ones": "That is what a larger base does.",
                "Only the fastest": "Those have seen all angles. Which method would do that?",
            },
        ),
    ],
    hints=[
        "Divide the tokens by those of one turn.",
        "Interpolation divides positions. Which pair could tell?",
    ],
    solution="4,096 of 16,384 tokens are 0.25 of a turn. In the long text it would make a whole one; "
    "interpolated by 4 it makes 0.25 again. All pairs are slowed by 4.",
)

KEYS_GO_STALE = Exercise(
    "which-keys-go-stale",
    "Which keys go stale?",
    "A model was trained on 4,096 tokens. Keys are cached after they were turned, and a text grows "
    "from 2,000 tokens to 10,000. With which of these methods do keys in the cache come to be wrong?",
    answers=[
        Choices(
            "Keys go stale",
            (
                "position interpolation by 4",
                "NTK-aware scaling by 4",
                "dynamic NTK scaling",
                "YaRN with a factor of 4",
                "the bands of Llama 3.1",
                "LongRoPE with its two lists",
            ),
            ("dynamic NTK scaling", "LongRoPE with its two lists"),
            right="These two change their frequencies with the length of the text.",
            mistakes={
                "position interpolation by 4": "Look again at interpolation: does its factor change while "
                "this text grows?",
                "NTK-aware scaling by 4": "Look again at NTK-aware scaling: which base has the first "
                "token, and which the last?",
                "dynamic NTK scaling": "Look again at dynamic NTK: what is the factor computed from?",
                "YaRN with a factor of 4": "Look again at YaRN: whose turns does it count, those of this "
                "text or of the training?",
                "the bands of Llama 3.1": "Look again at the bands: do they come from this text, or from "
                "the config?",
                "LongRoPE with its two lists": "Look again at LongRoPE: when is which list used?",
            },
        )
    ],
    hints=[
        "A cached key is right as long as the frequencies are those it was turned with.",
        "Go through the methods: which of them asks how long the text is?",
    ],
    solution="Dynamic NTK changes its base with every token past 4,096, and LongRoPE changes lists "
    "at 4,097. The other four have the same frequencies at 2,000 and at 10,000 tokens.",
)

CHAPTERS = {
    "01_learned_positions": [SUM_OF_ROWS, SILENT_ROWS],
    "02_rotary": [TURNED_PAIR, EQUAL_SCORES],
    "03_offset_test": [THREE_FAILURES],
    "04_comparison": [WHAT_MOVES],
    "05_judgement": [NEXT_POSITION, INTERPOLATED],
    "06_diagram": [HOW_OFTEN],
    "07_exercises": [
        TABLE_COST,
        TWICE_AS_LONG,
        FOUR_ANGLES,
        SHAPES_AFTER,
        MOVED_PROMPT,
    ],
    "09_lab": [AVERAGED, WHAT_WAS_MEASURED, NTK_BASE],
    "10_layouts": [PARTNERS, WHAT_IS_CONVERTED],
    "11_decoding": [AFTER_THE_PADDING, CHECK_SEES],
    "12_precision": [ROUNDED_POSITIONS, WHAT_MENDS_IT],
    "13_longer_contexts": [PART_OF_A_TURN, KEYS_GO_STALE],
}
