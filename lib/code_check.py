"""Tries a reader's function on random inputs and names the mistake in it.

    check(rotate_pair)             # the exercise is found by the function's own name
    check(my_turn, "rotate_pair")  # or named

The source is never looked at. What the reader did is the choice of fewest mistakes from
the bank, `lib.code_mistakes`, that gives what the function gives, on every input. If no
choice does, a property that it lacks is named, and the place where it first differs.
The answer is never said.
"""

import inspect
import random
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from lib.answers import Outcome, Verdict
from lib.code_mistakes import (
    ACCEPTED,
    ANY_PROPERTIES,
    EXERCISES,
    FEEDBACK,
    SEED,
    Inputs,
    Task,
    Trials,
    agree,
    all_the_same,
    close_to,
    combinations,
    trials_of,
    with_mistakes,
)
from lib.show import WIDTH

HALF = (0.03, 0.03)  # absolute and relative: what a few operations in bfloat16 may lose
QUOTED = 200  # characters of an error's message that a report repeats
ADDRESS = re.compile(r"0x[0-9a-fA-F]{4,}")  # of an object in memory: never the same
TORCH_LACKS = re.compile("not implemented for|Could not run")  # no stub of the reader's
WANTS_A_NUMBER = re.compile("Python scalar|one element tensors|length-1 arrays")
TORCH_HAS_IT = " The functions of math take one number; torch has them for tensors."
NO_MISTAKE = {
    "arguments",
    "error",
    "kind",
    "shape",
    "refusal",
    "",
}  # what else is said, by key
IDLE = {"unturned", "x_only"}  # mistakes with which the table is not used at all


# --- Running a reader's function ------------------------------------------------------


@dataclass
class Run:
    """One call of a reader's function: what goes in, what is wanted and what came."""

    exercise: Task
    inputs: Inputs
    wanted: tuple[Tensor, ...] = ()  # in double precision, like the results
    results: tuple[Tensor, ...] = ()  # empty: `problem` says why
    problem: dict[str, str] = field(default_factory=dict)  # said, by key
    faults: dict[str, str] = field(default_factory=dict)  # side effects, said, by key
    error: str = ""  # the type of one that was raised
    blank: bool = False  # nothing was written yet

    @property
    def within(self) -> tuple[float, float]:
        half = getattr(self.inputs[0], "dtype", None) == torch.bfloat16
        return HALF if half else self.exercise.close

    def agrees(self, which: slice = slice(None)) -> bool:
        return agree(self.results[which], self.wanted[which], self.within)

    def __str__(self) -> str:
        """The inputs: shapes of tensors, other values as they are."""
        return ", ".join(
            f"{name} of shape {list(x.shape)}"
            if isinstance(x, Tensor)
            else f"{name} = {x}"
            for name, x in zip(self.exercise.arguments, self.inputs, strict=False)
        )


def _other_arguments(function: Callable, given: list[str]) -> str | None:
    """What the function takes, if it cannot be called with what is given; else None."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of some built-in functions nothing is known
        return None
    try:
        signature.bind(*given)
    except TypeError:
        return ", ".join(signature.parameters) or "nothing"
    return None


def _run(
    function: Callable, exercise: Task, inputs: Inputs, refused: bool = False
) -> Run:
    """What the function does with copies of these inputs; if refused, none is wanted."""
    run = Run(exercise, inputs)
    if not refused:
        run.wanted = _double(exercise.reference(*inputs))
    given = [x.clone() if isinstance(x, Tensor) else x for x in inputs]
    try:
        answer = function(*given)
    except (Exception, SystemExit) as error:
        run.error, message = type(error).__name__, _message(error)
        run.blank = run.error == "NotImplementedError" and not TORCH_LACKS.search(
            message
        )
        run.problem["error"] = FEEDBACK["error"].format(_quoted(error), run)
        if WANTS_A_NUMBER.search(message):
            run.problem["error"] += TORCH_HAS_IT
    else:
        answers = answer if isinstance(answer, tuple) and answer else (answer,)
        run.blank = all(each is None or each is ... for each in answers)
        _take(run, exercise.read(answer))
    written = [
        name
        for name, x, kept in zip(exercise.arguments, given, inputs, strict=False)
        if isinstance(kept, Tensor) and not torch.equal(x, kept)
    ]
    if written:
        run.faults["in_place"] = FEEDBACK["in_place"].format(" and ".join(written))
    return run


def _take(run: Run, answer: object) -> None:
    """Put the function's answer into the run, or what is wrong with its kind."""
    names, surplus = run.exercise.results, run.exercise.surplus
    came: tuple = (answer,)
    if isinstance(answer, tuple | list) and len(answer) > 1:
        came = tuple(answer)
    tensors = tuple(x for x in came if isinstance(x, Tensor))
    if len(tensors) == len(came) == len(names):
        run.results = _double(tensors)
        given = getattr(run.inputs[0], "dtype", None)
        for x, wanted in zip(tensors, run.wanted, strict=False):
            if given and x.dtype != given and x.shape == wanted.shape:
                types = (
                    str(dtype).removeprefix("torch.") for dtype in (given, x.dtype)
                )
                run.faults["dtype"] = FEEDBACK["dtype"].format(*types)
    elif len(came) == len(names) + 1 and surplus:
        run.problem[surplus] = FEEDBACK[surplus]
    else:
        kinds = ", ".join(map(_kind, came[:3])) + (", ..." if came[3:] else "")
        results = " and ".join(names)
        run.problem["kind"] = FEEDBACK["kind"].format(kinds, results, run.exercise.kind)


def _double(answer: Tensor | tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(
        x.detach().cpu().to(torch.complex128 if x.is_complex() else torch.float64)
        for x in (answer if isinstance(answer, tuple) else (answer,))
    )


def _kind(x: object) -> str:
    name = f"{type(x).__module__}.{type(x).__qualname__}".removeprefix("builtins.")
    return f"{name} of shape {list(x.shape)}" if isinstance(x, Tensor) else name


def _message(error: BaseException) -> str:
    try:
        return str(error)[: 10 * QUOTED]
    except Exception:  # an error that cannot even be told
        return ""


def _quoted(error: BaseException) -> str:
    message = ADDRESS.sub("0x...", textwrap.shorten(_message(error), QUOTED)).rstrip(
        "."
    )
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


# --- Finding the mistake --------------------------------------------------------------


def _gives(candidate: Callable, run: Run) -> bool:
    """Whether the candidate gives what the function gave, or fails where it failed."""
    try:
        made = _double(candidate(*run.inputs))
    except Exception:  # sizes that do not fit
        made = ()
    return agree(made, run.results, run.within)


def _explanation(exercise: Task, runs: list[Run]) -> dict[str, str] | None:
    """The fewest mistakes, {stage: key}, that give what came; None if no choice does.

    First few mistakes must fail wherever the function failed, then that is left open.
    """
    ran = [run for run in runs if run.results]
    # Where one number fills everything, two mistakes can always be found that do so.
    most = 1 if ran and all(map(all_the_same, ran)) else exercise.deepest
    strictly = [(runs, min(most, 2))] if len(ran) < len(runs) else []
    for tried, deepest in [*strictly, (ran, most)] if ran else []:
        for count in range(deepest + 1):
            for chosen in combinations(exercise, count):
                candidate = with_mistakes(exercise, chosen)
                if all(_gives(candidate, run) for run in tried):
                    return chosen
    return None


def _difference(run: Run) -> dict[str, str]:
    """Where the results differ first from what is wanted, said; {} when nowhere."""
    names = run.exercise.results
    for name, came, wanted in zip(names, run.results, run.wanted, strict=True):
        if came.shape != wanted.shape:
            shapes = list(came.shape), list(wanted.shape)
            return {"shape": FEEDBACK["shape"].format(name, *shapes, run)}
    for name, came, wanted in zip(names, run.results, run.wanted, strict=True):
        wrong = (~close_to(came, wanted, run.within)).nonzero().tolist()
        if wrong:
            places = zip(run.exercise.axes, wrong[0], strict=False)
            at = ", ".join(f"{axis} {i}" for axis, i in places) or f"index {wrong[0]}"
            return {"": f"The first difference is at {at} of {name}, for {run}."}
    return {}


def _unexplained(exercise: Task, runs: list[Run]) -> dict[str, str]:
    """What is said to results that no choice of mistakes gives."""
    differences = list(filter(None, map(_difference, runs)))
    for difference in differences:
        if "shape" in difference:
            return difference
    tests = ANY_PROPERTIES | exercise.properties
    found = next((key for key, holds in tests.items() if holds(runs)), "unexplained")
    said = {found: FEEDBACK[found]}
    for axis, name in enumerate(exercise.axes):
        if found not in ANY_PROPERTIES and all(_only_first(run, axis) for run in runs):
            said["only_first"] = FEEDBACK["only_first"].format(name)
    return said | next(iter(differences), {})


def _only_first(run: Run, axis: int) -> bool:
    """Whether the first result is right at 0 of this axis and nowhere else on it."""
    right = close_to(run.results[0], run.wanted[0], run.within).movedim(axis, 0)
    first, *others = right.reshape(len(right), -1).all(dim=1).tolist()
    return first and bool(others) and not any(others)


def _special(function: Callable, exercise: Task, trials: Trials) -> dict[str, str]:
    """What a function that is right on ordinary inputs gets wrong on special ones."""
    said = {}
    for key, special in trials.special.items():
        for run in (_run(function, exercise, inputs) for inputs in special):
            trouble = run.problem or _difference(run)
            if trouble:
                said[key] = " ".join((FEEDBACK[key], *trouble.values()))
            said |= run.faults
    return said


def _accepted(
    function: Callable, exercise: Task, trials: Trials
) -> tuple[dict[str, str], set[str]]:
    """What is not refused and should be, said; and the types of errors that refused."""
    said, errors = {}, set()
    for key, refused in trials.refused.items():
        runs = [_run(function, exercise, inputs, refused=True) for inputs in refused]
        errors |= {run.error for run in runs if run.error}
        for run in [run for run in runs if not run.error][:1]:
            ways = ACCEPTED.get(key, {}).items()
            given = (name for name, way in ways if run.results and _gives(way, run))
            found = next(given, key)
            said[found] = f"{FEEDBACK[found]} Tried: {run}."
    return said, errors


# --- The check ------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)
class Report(Verdict):
    """What `check` found; its repr is for the reader.

    said: the findings, by keys of FEEDBACK, in the order in which they are told.
    """

    exercise: str
    said: tuple[tuple[str, str], ...]

    @property
    def mistakes(self) -> tuple[str, ...]:
        """The keys of the mistakes that were found."""
        return tuple(key for key, _ in self.said if key not in NO_MISTAKE)

    def __repr__(self) -> str:
        outcome = self.outcome.value
        if self.outcome is Outcome.UNREADABLE:
            ran = not {"error", "arguments"} & {key for key, _ in self.said}
            outcome = "could not be compared" if ran else "could not be run"
        first, *others = (text for _, text in self.said)
        lines = [f"{self.exercise}: {outcome}. {first}", *others]
        return "\n".join(textwrap.fill(line, WIDTH) for line in lines)


reports: dict[str, Verdict] = {}  # the latest of each function found by its own name
on_report: list[Callable[[], None]] = []  # called after each of them


def check(function: Callable, exercise: str | None = None) -> Report:
    """Try a reader's function and say whether it is right, or what its mistake is.

    exercise: a key of EXERCISES; None for the function's own name.
    The report quotes what the function raises. It is kept in `reports` when the function
    was found by its own name: one with another name, as in the worked solutions, is not
    the reader's answer. Random states, default dtype and grad mode are afterwards what
    they were.
    Raises TypeError for what cannot be called and ValueError for an unknown exercise.
    """
    if not callable(function):
        raise TypeError(f"function: got {type(function).__name__}, want a function")
    name = getattr(function, "__name__", None) if exercise is None else exercise
    if not isinstance(name, str) or name not in EXERCISES:
        raise ValueError(f"exercise: got {name!r}, want one of {', '.join(EXERCISES)}")
    with _undisturbed():
        outcome, said = _judged(function, EXERCISES[name], trials_of(name))
    report = Report(outcome, " ".join(said.values()), name, tuple(said.items()))
    if exercise is None:
        reports[name] = report
        for tell in on_report:
            tell()
    return report


@contextmanager
def _undisturbed() -> Iterator[None]:
    """The same random states, types and device at every check; the reader's afterwards.

    One thread: on tensors as small as these, threads only wait for each other.
    """
    kept = torch.get_rng_state(), torch.get_default_dtype(), torch.get_num_threads()
    dice = random.getstate(), np.random.get_state()
    torch.default_generator.manual_seed(SEED)
    random.seed(SEED)
    np.random.seed(SEED)
    torch.set_default_dtype(torch.float32)
    torch.set_num_threads(1)
    try:
        with torch.device("cpu"), torch.enable_grad(), warnings.catch_warnings():
            yield
    finally:
        torch.set_rng_state(kept[0])
        torch.set_default_dtype(kept[1])
        torch.set_num_threads(kept[2])
        random.setstate(dice[0])
        np.random.set_state(dice[1])


def _judged(
    function: Callable, exercise: Task, trials: Trials
) -> tuple[Outcome, dict[str, str]]:
    """The outcome, and what is said about it, by keys of FEEDBACK."""
    given = exercise.arguments[: len(trials.main[0])]
    takes = _other_arguments(function, given)
    if takes is not None:
        others = FEEDBACK["arguments"].format(", ".join(given), takes)
        return Outcome.UNREADABLE, {"arguments": others}

    runs = [_run(function, exercise, inputs) for inputs in trials.main + trials.lucky]
    faults = {key: text for run in runs for key, text in run.faults.items()}
    if all(run.blank for run in runs) and not faults:
        return Outcome.NOT_ATTEMPTED, {
            "": "Nothing comes back yet: write its body, and let it return the result."
        }

    again = _run(function, exercise, trials.main[0])
    if runs[0].results and not agree(again.results, runs[0].results, again.within):
        return Outcome.WRONG, {"random": FEEDBACK["random"]} | faults

    ran = [run for run in runs if run.results]
    problem = next((run.problem for run in runs if run.problem), {})
    chosen = _explanation(exercise, runs)
    if chosen is None:
        said = (_unexplained(exercise, ran) if ran else {}) | problem
    elif chosen:
        said = {key: FEEDBACK[key] for key in chosen.values()} | problem
    else:  # where it raised on ordinary inputs, a special one may show why
        raised = not problem or "error" in problem
        said = _special(function, exercise, trials) if raised else {}
        if problem and not said:
            said = problem | {"": f"It is right for {ran[0]}."}

    errors: set[str] = set()
    unused = chosen is None or "rows" in chosen or IDLE & {*chosen.values()}
    if not problem and not unused:  # else nothing is learnt from a table that is short
        accepted, errors = _accepted(function, exercise, trials)
        said |= accepted
    said |= faults
    if said:
        named = said.keys() - NO_MISTAKE
        return Outcome.WRONG if named else Outcome.UNREADABLE, said
    said = {"": exercise.tried}
    odd = sorted(errors - {exercise.refusal})
    if exercise.refusal and odd:
        said["refusal"] = FEEDBACK["refusal"].format(odd[0], exercise.refusal)
    return Outcome.RIGHT, said
