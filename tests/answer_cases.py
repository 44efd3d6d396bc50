"""One table of answers for Python and for the page's script: what is written, and what must be said to it."""

from lib.answers import (
    DEEPEST,
    LONGEST,
    PROBLEMS,
    Choice,
    Choices,
    Number,
    Numbers,
    Outcome,
    Shape,
)

COST = Number(
    "Parameters",
    65_536,
    right="right cost",
    otherwise="other cost",
    mistakes={16_384: "one head", 65_504: "a row less", 171.887: "degrees"},
    unit="parameters",
)
ANGLE = Number(
    "Angle",
    3,
    right="right angle",
    otherwise="other angle",
    mistakes={171.887338: "in degrees", 0.477465: "in turns", 0: "not turned"},
    unit="rad",
    tolerance=1e-3,
)
NONE = Number("Nothing", 0, right="right none", otherwise="other none")
THETA = Numbers(
    "Frequencies",
    (1, 0.1, 0.01, 0.001),
    right="right theta",
    otherwise="other theta",
    mistakes={(1, 10, 100, 1000): "no minus", (0.001, 0.01, 0.1, 1): "reversed"},
    unit="rad",
)
SHAPE = Shape(
    "Shape",
    (2, 5, 4, 8),
    right="right shape",
    otherwise="other shape",
    mistakes={(2, 5, 32): "flattened", (2, 4, 5, 8): "heads first"},
)
POINT = Numbers(
    "Point",
    (1.0806, 1.6829),
    right="right point",
    otherwise="other point",
    mistakes={(1.0806, -1.6829): "clockwise"},
    tolerance=5e-3,
)
VALUES = Choice(
    "Does V change?",
    ("Yes", "No", "Its shape"),
    "No",
    right="right values",
    mistakes={"Yes": "not turned", "Its shape": "same shape"},
)
MOVED = Choices(
    "What moves?",
    ("q", "k", "v"),
    ("q", "k"),
    right="right moved",
    mistakes={"q": "about q", "k": "about k", "v": "about v"},
)
RIGHT, WRONG = Outcome.RIGHT, Outcome.WRONG
UNREADABLE, NOTHING = Outcome.UNREADABLE, Outcome.NOT_ATTEMPTED


def unread(answer: Number, code: str = "text") -> str:
    return f"{PROBLEMS[code]} {answer.wanted}".strip()


RIGHT_TEXTS = {
    COST: [
        *("65,536", "65536", "2048*32", "2^16", "2**16", " 65 536 ", "65_536", "65'536"),
        *("2048 * 32", "2048 x 32", "2048x32", "2048×32", "2048·32", "= 65536"),
        *("65.536e3", "6.5536E4", "65536.", "65,536.0", "131072/2", "131072÷2"),
        *("2048*(30+2)", "2 048 * 32", "2^(2^4)", "2^2^4", "--65536", "+65536"),
        *("65,536 parameters", "65536 Parameters.", "65536params", "\t65536\n"),
        *("65536\u00a0parameters", "65\u202f536", "(((65536)))", "≈ 65536", "~65536"),
        *("-(-65536)", "2048*32 = 65536", "2048 × 32 = 65,536", "parameters 65536"),
        *("sqrt(65536)^2", "== 65536", "65\u2009536", "65536.00005"),
        *("65536" + " " * (LONGEST - 5), "(" * DEEPEST + "65536" + ")" * DEEPEST),
    ],
    ANGLE: ["3 rads", "3", "3.0", "3 rad", "3rad", "3 radians", "3.001", "30*1e-1", "3pi/pi",
        *("3 rad per position", "3 rad/position", "3 radians for each token", "3cos(0)")],
    NONE: ["none", "Zero", "nothing", "sin(0)", "0 = 0", "0", "0.0", "-0", "2-2", "0 * 5", "−0", "0^2"],
    THETA: [
        *("1, 0.1, 0.01, 0.001", "[1,.1,.01,.001]", "(1, 1e-1, 1e-2, 1e-3)"),
        *("1 0.1 0.01 0.001", "10^0, 10^-1, 10^-2, 10^-3", "1; 0.1; 0.01; 0.001"),
        *("1, 0.1, 0.01 and 0.001", "1, 0.1, 0.01, and 0.001", "{1, 1/10, 1/100, 1/1000}"),
        *("1 rad, 0.1 rad, 0.01 rad, 0.001 rad", "[1, 0.1, 0.01, 0.001] rad"),
        *("tensor([1.0, 0.1, 0.01, 0.001])", "[[1, 0.1, 0.01, 0.001]]", "1,.1,.01,.001,"),
        *("(2-1), (1/10), (1/100), (1/1000)", "1, 0.1, 0.01, 0.001 rad per position"),
        *("theta = [1, 0.1, 0.01, 0.001]", "1 ;0.1; 0.01;0.001;"),
    ],
    POINT: ["1.081, 1.683", "2cos(1), 2sin(1)", "2 cos 1, 2*sin(1)", "1.08 and 1.68"],
    SHAPE: [
        *("[2, 5, 4, 8]", "(2,5,4,8)", "2, 5, 4, 8", "2 5 4 8", "2x5x4x8", "2×5×4×8"),
        *("2 x 5 x 4 x 8", "torch.Size([2, 5, 4, 8])", "[2,5,4,8,]", "Shape(2, 5, 4, 8)"),
        *("[2, 5, 2^2, 8]", "2*5*4*8", "2 by 5 by 4 by 8", "shape = (2, 5, 4, 8)", "[2., 5., 4., 8.]", "[2, 5, 4, 8]."),
    ],
}  # fmt: skip
WRONG_TEXTS = {
    COST: {
        "16,384": "one head",
        "2048*8": "one head",
        "65,504": "a row less",
        "65503.9": "other cost",
        "65536 = 2": "other cost",
        "171.9": "degrees",
        "172": "degrees",
        "171.1": "degrees",
        "170.9": "other cost",
        "65536.0002": "other cost",
        "–65536": "other cost",
        "65,535": "other cost",
        "-65536": "other cost",
        "65536.1": "other cost",
        "pi": "other cost",
        "2^-16": "other cost",
        "-2^16": "other cost",
    },
    ANGLE: {
        "171.9": "in degrees",
        "172 rad": "in degrees",
        "0.4775": "in turns",
        "0.48": "in turns",
        "0.477": "in turns",
        "0.4": "other angle",
        "3/(2*pi)": "in turns",
        "3/(2π)": "in turns",
        "3/2pi": "other angle",
        "0": "not turned",
        "-0.0": "not turned",
        "3.01": "other angle",
    },
    NONE: {"1e-300": "other none", "1": "other none", "-1": "other none"},
    THETA: {
        "1, 10, 100, 1000": "no minus",
        "0.001 0.01 0.1 1": "reversed",
        "1, 0.1": "That is a list of 2; the answer has another length. other theta",
        "1": "That is one number; a list is asked for. other theta",
        "1, 0.2, 0.01, 0.001": "Number 2 is not right. other theta",
        "1, 0.1, 0.01, 0.002": "Number 4 is not right. other theta",
        "(1+1), (2+2)": "That is a list of 2; the answer has another length. other theta",
        "1,000": "That is a list of 2; the answer has another length. other theta",
    },
    POINT: {
        "1.1, 1.7": "Close, but rounded too far: give more decimals.",
        "1, 2": "Close, but rounded too far: give more decimals.",
        "1.1, -1.7": "Number 1 is not right. other point",
        "1.08, -1.68": "clockwise",
        "1.2, 1.7": "Number 1 is not right. other point",
    },
    SHAPE: {
        "[2, 5, 32]": "flattened",
        "2x5x32": "flattened",
        "[2,5,4*8]": "flattened",
        "(2, 4, 5, 8)": "heads first",
        "[2, 5, 4, 4]": "Axis 4 is not right. other shape",
        "[]": None,
        "2": "That is one number; a shape has one for each axis. other shape",
    },
}
UNREADABLE_TEXTS = {
    "text": [
        *("sixteen", "65,53", "65,5366", "65.536,0", "0,5", "0,536", "3,14", "1,,2", ",", "2 3"),
        *("2*", "*2", "2^", "(2", "2)", "()", "2**", "2***3", "2//3", "1e", "e5", ".", "-"),
        *("0x10", "0b11", "0o7", "0X1F", "1_0", "__import__('os')", "lambda: 1", "inf", "nan"),
        *("<b>1</b>", "<script>document.title='x'</script>", "<img src=x onerror=x()>"),
        *("٣", "３", "²", "1e٣", "Ⅷ", "½", "2²", "\u200b2", "2\u0000", "\ufeff2", "'; drop"),
        *("(" * 90 + "1" + ")" * 90, "-" * 150 + "1", "2^" * 60 + "2", "${7*7}", "{{7*7}}"),
        *("(" * (DEEPEST + 1) + "1" + ")" * (DEEPEST + 1), "[1)", "(1]"),
        *("1;", "=", "pi pi)", "2 3 4", "5!", "5%", "1.2.3", "1..2", "٬", "[1]"),
    ],
    "value": [
        *("1/0", "0/0", "1/(1/0)", "9**9**9", "9^9^9^9", "0^-1", "(-8)^0.5", "1e400"),
        *("1e308*10", "-1e308*10", "1e308+1e308", "10^400", "9" * 190 + "e190", "1/(2-2)"),
    ],
    "unit": ["3\u2028 deg", "3 deg", "3°", "3 degrees", "5 tokens", "1 rad", "2 turns", "2 revs"],
    "long": [
        *(" " * 20_000, "1" + " " * LONGEST),
        "1" * (LONGEST + 1), " 1" * LONGEST, "🙂" * (LONGEST + 1), "x" * 1_000_000,
    ],
}  # fmt: skip
BLANKS = ["", " ", "\t\n", "\u00a0 \u202f", " " * 500]

CASES = (
    [(a, text, RIGHT, a.right) for a, texts in RIGHT_TEXTS.items() for text in texts]
    + [
        (a, text, WRONG if said else UNREADABLE, said or unread(a))
        for a, texts in WRONG_TEXTS.items()
        for text, said in texts.items()
    ]
    + [
        (COST, text, UNREADABLE, unread(COST, code))
        for code, texts in UNREADABLE_TEXTS.items()
        for text in texts
    ]
    + [
        (answer, text, NOTHING, "Nothing is written here yet.")
        for answer in (COST, THETA, SHAPE)
        for text in BLANKS
    ]
    + [
        (THETA, "1 deg, 2, 3, 4", UNREADABLE, unread(THETA, "unit")),
        (THETA, "1,,2", UNREADABLE, unread(THETA)),
        (THETA, "[1, [2]", UNREADABLE, unread(THETA)),
        (THETA, "[1, 0.1, 0.01, 0.001)", UNREADABLE, unread(THETA)),
        (THETA, "a, b, c, d", UNREADABLE, unread(THETA)),
        (THETA, "1; 0,1; 0,01; 0,001", UNREADABLE, unread(THETA)),
        (THETA, "1 deg per position, 1, 1, 1", UNREADABLE, unread(THETA, "unit")),
        (COST, "position 3", UNREADABLE, unread(COST, "unit")),
        (COST, "cos", UNREADABLE, unread(COST)),
        (COST, "sqrt(-1)", UNREADABLE, unread(COST, "value")),
        (COST, "cos(" * 30 + "1" + ")" * 30, UNREADABLE, unread(COST)),
        (COST, "exp(1)", UNREADABLE, unread(COST)),
        (THETA, "1, 1/0", UNREADABLE, unread(THETA, "value")),
        (SHAPE, "2.5, 5, 4, 8", UNREADABLE, unread(SHAPE)),
        (SHAPE, "[-2, 5, 4, 8]", UNREADABLE, unread(SHAPE)),
        (SHAPE, "[B, T, h, d_head]", UNREADABLE, unread(SHAPE)),
        (SHAPE, "[2, 5, 4, 8] tokens", UNREADABLE, unread(SHAPE, "unit")),
        (SHAPE, "ſhape(2, 5, 4, 8)", UNREADABLE, unread(SHAPE)),
        (VALUES, "", NOTHING, "Nothing is chosen here yet."),
        (VALUES, "No", RIGHT, "right values"),
        (VALUES, "Yes", WRONG, "not turned"),
        (VALUES, "Its shape", WRONG, "same shape"),
        (MOVED, [], NOTHING, "Nothing is chosen here yet."),
        (MOVED, ["q", "k"], RIGHT, "right moved"),
        (MOVED, ["k", "q"], RIGHT, "right moved"),
        (MOVED, ["q"], WRONG, "about k"),
        (MOVED, ["k"], WRONG, "about q"),
        (MOVED, ["v"], WRONG, "about v That is one of 3 to look at again."),
        (MOVED, ["q", "v"], WRONG, "about v That is one of 2 to look at again."),
        (MOVED, ["q", "k", "v"], WRONG, "about v"),
    ]
)
