"""What a model's config.json says about RoPE, read as frequencies.

`from_hugging_face` takes the dictionary that is called rope_scaling in older configs
and rope_parameters in newer ones. It computes what transformers 5.24 does, in its file
modeling_rope_utils.py, but most of what that warns of or passes over is an error here:
a field that is unknown, of a wrong type, or at odds with another. One thing it warns of
is not: a YaRN factor other than the ratio of the lengths, for models are published so
(Qwen3: 40,960 positions, 32,768 trained, factor 4). The formulas are in `lib.scaling`.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from lib import rope, scaling
from lib.checks import as_even, as_int, as_number, require_str

OLD_NAMES = {"su": "longrope"}  # Phi-3's first configs


@dataclass(frozen=True, eq=False)
class Scaled:
    """Frequencies, float64 [rotary_dim/2], and the factor of cos and sin.

    `lib.scaling.precompute_scaled` makes a table of the two.
    """

    inv_freq: Tensor
    attention_factor: float = 1.0


def from_hugging_face(
    rope_parameters: Mapping[str, object] | None,
    d_head: int,
    max_position_embeddings: int,
    *,
    rope_theta: float | None = None,
    partial_rotary_factor: float | None = None,
    original_max_position_embeddings: int | None = None,
    seq_len: int | None = None,
) -> Scaled:
    """The frequencies that a config's dictionary asks for, at the present length.

    rope_parameters: None or an empty one is plain RoPE. Its type is called "rope_type"
    or, in older configs, "type". A field that may be left out may also be None.
    rope_theta (the base), partial_rotary_factor and original_max_position_embeddings
    (the trained length) stand in the dictionary or, in older configs, beside it: pass
    those here. In neither, they are 10,000, 1 and max_position_embeddings. A trained
    length beside a type that needs none is allowed, for some configs always have it.
    seq_len: the present length, the highest position + 1, so tokens in a cache count.
    Only the types dynamic and longrope look at it; None is a short text. Nothing is
    remembered: after a long text a short one has the short angles again.

    Raises TypeError or ValueError that names the field or argument.
    """
    fields = _as_fields(rope_parameters)
    kind = _take_kind(fields)
    base = _inside_or_beside(fields, "rope_theta", rope_theta, rope.BASE)
    share = _inside_or_beside(
        fields, "partial_rotary_factor", partial_rotary_factor, 1.0
    )
    model = _Model(
        d_head=as_even("d_head", d_head),
        base=as_number("rope_theta", base, above=0),
        share=_as_share(share),
        length=_as_length("max_position_embeddings", max_position_embeddings),
        seq_len=None if seq_len is None else as_int("seq_len", seq_len, at_least=1),
    )
    trained = "original_max_position_embeddings"
    if original_max_position_embeddings is not None:
        _as_length(trained, original_max_position_embeddings)
    if trained in _fields_of(kind):
        fields[trained] = _inside_or_beside(
            fields, trained, original_max_position_embeddings, model.length
        )
    _require_fields(kind, fields)
    return TYPES[kind](model, **fields)


# --- The types: each one's fields are its keyword arguments ---------------------------


@dataclass(frozen=True)
class _Model:
    """What a config says beside the fields of a type."""

    d_head: int
    base: float
    share: float  # of each head that turns
    length: int  # max_position_embeddings
    seq_len: int | None

    @property
    def rotary_dim(self) -> int:
        """How many dimensions of a head turn, rounded down as in transformers."""
        rotary_dim = int(self.d_head * self.share)
        if rotary_dim == 0 or rotary_dim % 2:
            raise ValueError(
                f"partial_rotary_factor: got {self.share}, which is {rotary_dim} of "
                f"{self.d_head} dimensions, want a positive even number of them"
            )
        return rotary_dim


def _default(model: _Model) -> Scaled:
    """Plain RoPE."""
    return Scaled(rope.inv_freq(model.rotary_dim, model.base))


def _linear(model: _Model, *, factor: object) -> Scaled:
    """`scaling.position_interpolation`."""
    factor = as_number("factor", factor, at_least=1)
    return Scaled(scaling.position_interpolation(model.rotary_dim, factor, model.base))


def _dynamic(model: _Model, *, factor: object) -> Scaled:
    """`scaling.dynamic_ntk`, whose trained length is max_position_embeddings."""
    factor = as_number("factor", factor, at_least=1)
    seq_len = model.seq_len or model.length
    if model.rotary_dim == 2 < model.d_head:
        raise ValueError(
            f"partial_rotary_factor: got {model.share}, which turns one pair of a head of "
            f"{model.d_head}, want two pairs or more for the type dynamic"
        )
    return Scaled(
        scaling.dynamic_ntk(model.rotary_dim, factor, model.length, seq_len, model.base)
    )


def _yarn(
    model: _Model,
    *,
    factor: object,
    original_max_position_embeddings: object,
    attention_factor: object = None,
    beta_fast: object = None,
    beta_slow: object = None,
    mscale: object = None,
    mscale_all_dim: object = None,
    truncate: object = True,
) -> Scaled:
    """`scaling.yarn_along_pairs`: as its code is, not as its paper."""
    as_number("rope_theta", model.base, above=1)
    trained_length = _as_trained_length(original_max_position_embeddings)
    factor = _as_factor_or_ratio(factor, model, trained_length)
    turns = _as_turns(beta_slow, beta_fast)
    if not isinstance(truncate, bool):
        raise TypeError(f"truncate: got {truncate!r}, want True or False")
    inv_freq = scaling.yarn_along_pairs(
        model.rotary_dim, factor, trained_length, model.base, turns, truncate
    )
    implied = _yarn_attention_factor(factor, mscale, mscale_all_dim)
    if attention_factor is not None and mscale is not None:
        raise ValueError(
            f"attention_factor: got {attention_factor} and an mscale too, "
            "want one of the two, for only the first would count"
        )
    return Scaled(inv_freq, _as_attention_factor(attention_factor, implied))


def _yarn_attention_factor(
    factor: float, mscale: object, mscale_all_dim: object
) -> float:
    """YaRN's attention factor, or DeepSeek's quotient of two weighted ones.

    Source: deepseek-ai/DeepSeek-V2, modeling_deepseek.py, `yarn_get_mscale`.
    """
    if mscale is None and mscale_all_dim is None:
        return scaling.yarn_attention_factor(factor)
    if mscale is None or mscale_all_dim is None:
        name = "mscale" if mscale is None else "mscale_all_dim"
        raise ValueError(
            f"{name}: got nothing, want a number, for mscale and mscale_all_dim count "
            "only together"
        )
    above, below = (
        scaling.yarn_attention_factor(factor, as_number(name, weight, above=0))
        for name, weight in [("mscale", mscale), ("mscale_all_dim", mscale_all_dim)]
    )
    return above / below


def _longrope(
    model: _Model,
    *,
    short_factor: object,
    long_factor: object,
    original_max_position_embeddings: object,
    factor: object = None,
    attention_factor: object = None,
) -> Scaled:
    """`scaling.longrope` by the short list up to the trained length, else by the long.

    The attention factor is the same at every length.
    """
    trained_length = _as_trained_length(original_max_position_embeddings)
    pairs = model.rotary_dim // 2
    short = _as_factors("short_factor", short_factor, pairs)
    long = _as_factors("long_factor", long_factor, pairs)
    is_long = (model.seq_len or 0) > trained_length
    inv_freq = scaling.longrope(
        model.rotary_dim, long if is_long else short, model.base
    )
    factor = _as_factor_or_ratio(factor, model, trained_length)
    implied = scaling.longrope_attention_factor(factor, trained_length)
    return Scaled(inv_freq, _as_attention_factor(attention_factor, implied))


def _llama3(
    model: _Model,
    *,
    factor: object,
    low_freq_factor: object,
    high_freq_factor: object,
    original_max_position_embeddings: object,
) -> Scaled:
    """`scaling.llama3`."""
    factor = as_number("factor", factor, at_least=1)
    low = as_number("low_freq_factor", low_freq_factor, above=0)
    high = as_number("high_freq_factor", high_freq_factor, above=0)
    if low >= high:
        raise ValueError(
            f"low_freq_factor: got {low}, want less than high_freq_factor, {high}"
        )
    trained_length = _as_trained_length(original_max_position_embeddings)
    if trained_length >= model.length:
        raise ValueError(
            f"original_max_position_embeddings: got {trained_length}, want less than "
            f"max_position_embeddings, {model.length}"
        )
    return Scaled(
        scaling.llama3(
            model.rotary_dim, factor, trained_length, model.base, (low, high)
        )
    )


def _proportional(model: _Model, *, factor: object = None) -> Scaled:
    """`scaling.proportional`: partial_rotary_factor is the share of pairs that turn."""
    factor = as_number("factor", 1 if factor is None else factor, at_least=1)
    return Scaled(scaling.proportional(model.d_head, model.share, factor, model.base))


TYPES: dict[str, Callable[..., Scaled]] = {
    "default": _default,
    "linear": _linear,
    "dynamic": _dynamic,
    "yarn": _yarn,
    "longrope": _longrope,
    "llama3": _llama3,
    "proportional": _proportional,
}


# --- Reading the dictionary -----------------------------------------------------------


def _as_fields(rope_parameters: object) -> dict[str, object]:
    if rope_parameters is None:
        return {}
    if not isinstance(rope_parameters, Mapping):
        raise TypeError(
            f"rope_parameters: got {type(rope_parameters).__name__}, "
            "want a dictionary or None"
        )
    for name, value in rope_parameters.items():
        if isinstance(value, Mapping):
            raise ValueError(
                f"rope_parameters: got a dictionary for the layers {name!r}, "
                "want that dictionary itself"
            )
    return dict(rope_parameters)


def _take_kind(fields: dict[str, object]) -> str:
    """The type, by its new name, taken out of the fields."""
    given: dict[str, Any] = {
        name: fields.pop(name, None) for name in ("type", "rope_type")
    }
    kinds: dict[str, str] = {}
    for name, kind in given.items():
        if kind is None:
            continue
        require_str(name, kind)
        kinds[name] = OLD_NAMES.get(kind, kind)
        if kinds[name] not in TYPES:
            raise ValueError(f"{name}: got {kind!r}, want one of {', '.join(TYPES)}")
    if len(set(kinds.values())) > 1:
        raise ValueError(
            f"rope_type: got {given['rope_type']!r} and the type {given['type']!r}, "
            "want one or twice the same"
        )
    return next(iter(kinds.values()), "default")


def _inside_or_beside(
    fields: dict[str, object], name: str, beside: object, otherwise: object
) -> object:
    """A value that may stand in the dictionary, which loses it, or beside it."""
    inside = fields.pop(name, None)
    if inside is None:
        return otherwise if beside is None else beside
    if beside is not None and inside != beside:
        raise ValueError(
            f"{name}: got {inside!r} in the dictionary and {beside!r} beside it, "
            "want one or twice the same"
        )
    return inside


def _fields_of(kind: str) -> dict[str, inspect.Parameter]:
    """The fields that a type has, by name: its function's keyword arguments."""
    parameters = inspect.signature(TYPES[kind]).parameters.items()
    return {
        name: field for name, field in parameters if field.kind is field.KEYWORD_ONLY
    }


def _require_fields(kind: str, fields: dict[str, object]) -> None:
    """Raises ValueError for a field that the type has not, or lacks."""
    known = _fields_of(kind)
    for name in fields:
        if name not in known:
            raise ValueError(
                f"{name}: got this field for the type {kind}, want only "
                + ", ".join(
                    ["rope_type", "rope_theta", "partial_rotary_factor", *known]
                )
            )
    for name, field in known.items():
        if name not in fields and field.default is field.empty:
            raise ValueError(f"{name}: got nothing, want what the type {kind} needs")


# --- Values of fields -----------------------------------------------------------------


def _as_share(value: object) -> float:
    share = as_number("partial_rotary_factor", value, at_least=0)
    if share > 1:
        raise ValueError(f"partial_rotary_factor: got {share}, want at most 1")
    return share


def _as_length(name: str, value: object) -> int:
    return as_int(name, value, at_least=2)  # a text of one token has no distances


def _as_trained_length(value: object) -> int:
    return _as_length("original_max_position_embeddings", value)


def _as_factor_or_ratio(factor: object, model: _Model, trained_length: int) -> float:
    """The factor or, when it is null, how many times as long texts may be."""
    if factor is not None:
        return as_number("factor", factor, at_least=1)
    if trained_length > model.length:
        raise ValueError(
            f"original_max_position_embeddings: got {trained_length}, want at most "
            f"max_position_embeddings, {model.length}"
        )
    return model.length / trained_length


def _as_turns(beta_slow: object, beta_fast: object) -> tuple[float, float]:
    slow = as_number("beta_slow", 1 if beta_slow is None else beta_slow, above=0)
    fast = as_number("beta_fast", 32 if beta_fast is None else beta_fast, above=0)
    if fast < slow:
        raise ValueError(f"beta_fast: got {fast}, want at least beta_slow, {slow}")
    return slow, fast


def _as_attention_factor(given: object, implied: float) -> float:
    """The one that is given, else the one that follows from the other fields."""
    return implied if given is None else as_number("attention_factor", given, above=0)


def _as_factors(name: str, value: object, pairs: int) -> list[float]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise TypeError(f"{name}: got {type(value).__name__}, want a list of numbers")
    if len(value) != pairs:
        raise ValueError(
            f"{name}: got {len(value)} numbers, want {pairs}, one for each pair"
        )
    return [as_number(f"{name}[{i}]", value[i], above=0) for i in range(pairs)]
