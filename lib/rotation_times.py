"""How fast and how exactly public implementations rotate: the stored measurement, as rows of tables."""

import json
from pathlib import Path

STORED = Path(__file__).parent / "data" / "rotation.json"
HEADER = ("rotation", "ms", "x clone()", "error")
SETTINGS = {"sizes", "threads", "rounds", "machine", "versions"}
FAR = {"rotation", "tokens", "error"}
TIME = {"dtype", "run", "mode", "rotation", "ms", "ratio", "error"}


def stored(path: Path = STORED) -> dict:
    """What `python -m tools.benchmark_rotation` wrote, a dictionary.

    sizes: B, T, h and d_head of q and k. threads, rounds: so many. machine: its kind.
    versions: of torch and each package.
    far: a dictionary for every rotation and number of tokens: error is the largest of an
    angle at the end of such a text, in radians, in float32.
    times: a dictionary for every dtype ("float32", "bfloat16"), run ("forward", "forward
    + backward"), mode ("eager", "compiled") and rotation, with the median ms, the median
    ratio to clone() of q and k, and error, the largest of a pair of dimensions relative
    to the pair's length, which is one of outputs, or of gradients where there is a
    backward pass. clone() rotates nothing: its error is None. What torch.compile failed
    at has None for all three.
    Raises FileNotFoundError, or ValueError when the file is no such measurement.
    """
    try:
        measured = json.loads(path.read_text())
        whole = measured.keys() == SETTINGS | {"far", "times"} and all(
            len(measured[name]) > 0
            and all(row.keys() == keys for row in measured[name])
            for name, keys in (("far", FAR), ("times", TIME))
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise ValueError(f"{path}: no measurement of this program") from error
    if not whole:
        raise ValueError(f"{path}: no measurement of this program")
    return measured


def rows(measured: dict, dtype: str, run: str, mode: str) -> list[tuple]:
    """Rows for `lib.show.table` under HEADER, fastest first, of one dtype, run and mode.

    Raises ValueError when these were not measured.
    """
    wanted = {"dtype": dtype, "run": run, "mode": mode}
    times = [time for time in measured["times"] if wanted.items() <= time.items()]
    if not times:
        raise ValueError(
            f"dtype, run, mode: got {dtype}, {run}, {mode}, want three that were measured"
        )
    times.sort(key=lambda time: (time["ratio"] is None, time["ratio"]))
    return [(time["rotation"], *_shown(time)) for time in times]


def far_rows(measured: dict) -> tuple[list[tuple], tuple]:
    """Rows for `lib.show.table`, most exact first, and their header: error by tokens."""
    errors: dict[str, dict[int, float]] = {}
    for row in measured["far"]:
        errors.setdefault(row["rotation"], {})[row["tokens"]] = row["error"]
    order = sorted(errors, key=lambda name: list(errors[name].values())[-1])
    tokens = list(next(iter(errors.values())))
    header = ("error of an angle (rad)", *(f"{n:,} tokens" for n in tokens))
    return [
        (name, *(f"{errors[name][n]:.1e}" for n in tokens)) for name in order
    ], header


def _shown(time: dict) -> tuple[str, str, str]:
    if time["ms"] is None:
        return "does not compile", "", ""
    error = "" if time["error"] is None else f"{time['error']:.1e}"
    return f"{time['ms']:.1f}", f"{time['ratio']:.2f}", error
