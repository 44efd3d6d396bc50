"""Make `_static/fonts.css`: the two fonts of the site, cut down to what the book writes.

    python -m tools.fonts STIXTwoMath-Regular.ttf fa-solid-900.ttf

needs `pip install fonttools brotli`. The first font comes with the package `ziamath`, the second with
`pydata-sphinx-theme` (static/vendor/fontawesome). The fonts are data addresses inside the style sheet: a
style sheet is there before the first paint, so no text ever moves when a font arrives, and a page opened
from the disk needs no permission to load one. Both licences are in `_static/fonts-OFL.txt`.
"""

import base64
import io
import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTFont


def span(first: int, last: int) -> list[int]:
    return list(range(first, last + 1))


MATH = [
    *span(0x20, 0x7E), 0xA0, 0xAC, 0xAF, 0xB0, 0xB1, 0xB7, 0xD7, 0xF7,
    *span(0x391, 0x3C9), 0x3D1, 0x3D5, 0x3F1, 0x3F5,  # Greek and its variants
    0x302, 0x303, 0x304, 0x305, 0x307, 0x308, 0x30C, 0x20D7, 0x2C6, 0x2DC,  # accents
    0x2016, 0x2026, 0x2032, 0x2033, 0x203E, 0x2061, 0x2062, 0x2063,
    0x2102, 0x210E, 0x2111, 0x2113, 0x2115, 0x2119, 0x211A, 0x211C, 0x211D, 0x2124,  # C h Im l N P Q Re R Z
    *span(0x2190, 0x2195), 0x21A6, 0x21D0, 0x21D2, 0x21D4, 0x27F6, 0x27F9, 0x27FC,  # arrows
    *span(0x2200, 0x220F), *span(0x2211, 0x2213), *span(0x2215, 0x221E), *span(0x2223, 0x222B), 0x2234, 0x223C,
    0x2243, 0x2245, 0x2248, 0x224D, 0x2254, 0x225C, *span(0x2260, 0x226B), *span(0x2282, 0x228B), 0x2295, 0x2297,
    0x2299, 0x22A4, 0x22A5, 0x22C5, *span(0x22EE, 0x22F1), *span(0x2308, 0x230B), 0x23DE, 0x23DF,
    0x27E8, 0x27E9, 0x2A7D, 0x2A7E,
    *span(0x1D400, 0x1D49B),  # bold, italic, bold italic
    *span(0x1D538, 0x1D551), *span(0x1D7CE, 0x1D7E1),  # blackboard capitals, bold and blackboard digits
    *span(0x1D6E2, 0x1D71B),  # Greek italic
]  # fmt: skip

# Font Awesome's names for the signs that the theme's templates and style sheets use.
ICONS = {
    "angle-left": 0xF104, "angle-right": 0xF105, "arrow-up": 0xF062, "bars": 0xF0C9, "bell": 0xF0F3,
    "chevron-down": 0xF078, "circle-check": 0xF058, "circle-exclamation": 0xF06A, "circle-half-stroke": 0xF042,
    "circle-info": 0xF05A, "circle-xmark": 0xF057, "code": 0xF121, "download": 0xF019, "expand": 0xF065, "file": 0xF15B,
    "file-lines": 0xF15C, "file-pdf": 0xF1C1, "lightbulb": 0xF0EB, "list": 0xF03A, "magnifying-glass": 0xF002,
    "magnifying-glass-minus": 0xF010, "moon": 0xF186, "pencil": 0xF303, "share": 0xF064, "sun": 0xF185,
    "triangle-exclamation": 0xF071, "up-right-from-square": 0xF35D,
}  # fmt: skip


def draw_primes_as_indices(font: TTFont) -> None:
    """A prime is always written raised, for which the font has a larger drawing that browsers do not ask for."""
    cmap = dict(font.getBestCmap())
    for lookup in font["GSUB"].table.LookupList.Lookup if "GSUB" in font else []:
        for table in lookup.SubTable:
            drawings = getattr(getattr(table, "ExtSubTable", table), "alternates", {})
            for code in (0x2032, 0x2033):
                if code in cmap and cmap[code] in drawings:
                    for names in font["cmap"].tables:
                        if code in getattr(names, "cmap", {}):
                            names.cmap[code] = drawings[cmap[code]][0]


def cut(source: Path, family: str, characters: list[int]) -> bytes:
    """The font as WOFF2 with these characters alone, and under a name of ours: the makers reserve theirs."""
    options = subset.Options(
        layout_features=[], hinting=False, desubroutinize=True, notdef_outline=True
    )
    options.name_IDs = [0, 13, 14]  # copyright and licence stay
    font = TTFont(source, recalcTimestamp=False)  # the same input gives the same bytes
    draw_primes_as_indices(font)
    job = subset.Subsetter(options)
    job.populate(unicodes=characters)
    job.subset(font)
    for name_id in (1, 4):
        font["name"].setName(family, name_id, 3, 1, 0x409)
    font["name"].setName("Regular", 2, 3, 1, 0x409)
    font["name"].setName(family.replace(" ", "") + "-Regular", 6, 3, 1, 0x409)
    font.flavor = "woff2"
    file = io.BytesIO()
    font.save(file)
    return file.getvalue()


def face(family: str, woff2: bytes) -> str:
    address = "data:font/woff2;base64," + base64.b64encode(woff2).decode()
    return f'@font-face {{ font-family: "{family}"; font-display: block; src: url("{address}") format("woff2"); }}\n'


def main(math_source: str, icon_source: str) -> None:
    math = cut(Path(math_source), "Book Math", MATH)
    icons = cut(Path(icon_source), "Book Icons", list(ICONS.values()))
    css = "/* Made by tools/fonts.py, which says why and how. Licences: fonts-OFL.txt */\n"
    css += face("Book Math", math) + face("Book Icons", icons)
    css += 'math { font-family: "Book Math", "STIX Two Math", "Cambria Math", math; }\n'
    css += ':root { --fa-font-solid: normal 400 1em/1 "Book Icons"; --fa-font-brands: var(--fa-font-solid); }\n'
    css += (
        ".fa-solid, .fas { display: inline-block; min-width: 1em; text-align: center; "
    )
    css += "font: var(--fa-font-solid); }\n"
    css += ".fa-lg { font-size: 1.25em; }\n"
    css += "".join(
        f'.fa-{name}::before {{ content: "\\{code:x}"; }}\n'
        for name, code in ICONS.items()
    )
    Path("_static/fonts.css").write_text(css, encoding="utf-8")
    print(
        f"Book Math {len(math):,} bytes, Book Icons {len(icons):,} bytes, fonts.css {len(css):,} bytes"
    )


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
