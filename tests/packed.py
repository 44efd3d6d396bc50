"""What a page does with an explorer's data, in Python."""

import itertools


def unpack(part: dict, frame: int) -> str:
    """The text of one frame: what explorer.js does, in Python."""
    template, numbers = part["states"][part["frames"][frame]]
    literals = part["templates"][template]
    return "".join(
        itertools.chain(*itertools.zip_longest(literals, numbers.split(), fillvalue=""))
    )
