"""lib/rope_config.py and lib/rope_models.py against transformers, and what they refuse."""

import dataclasses
import math
import random

import pytest
import torch

from lib.rope import inv_freq
from lib.rope_config import TYPES, from_hugging_face
from lib.rope_models import PUBLISHED
from lib.scaling import precompute_scaled, yarn, yarn_along_pairs
from tests.refusals import assert_refused

LINEAR = {"rope_type": "linear", "factor": 4.0}
DYNAMIC = {"rope_type": "dynamic", "factor": 2.0}
YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 2048,
}
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1 + i / 32 for i in range(32)],
    "long_factor": [1 + i for i in range(32)],
    "original_max_position_embeddings": 2048,
}
LLAMA3 = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 2048,
}
PROPORTIONAL = {"rope_type": "proportional", "partial_rotary_factor": 0.25}
EVERY = {
    "linear": LINEAR,
    "dynamic": DYNAMIC,
    "yarn": YARN,
    "longrope": LONGROPE,
    "llama3": LLAMA3,
    "proportional": PROPORTIONAL,
}


def read(rope_parameters, d_head=64, max_position_embeddings=8192, **beside):
    return from_hugging_face(rope_parameters, d_head, max_position_embeddings, **beside)


def assert_same(ours, theirs):
    assert torch.equal(ours.inv_freq, theirs.inv_freq)
    assert ours.attention_factor == theirs.attention_factor


# --- Known values ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "nothing", [None, {}, {"rope_type": "default"}, {"type": None}]
)
def test_no_scaling_is_plain_rope(nothing):
    scaled = read(nothing)
    assert torch.equal(scaled.inv_freq, inv_freq(64)) and scaled.attention_factor == 1


def test_linear_is_position_interpolation():
    table = precompute_scaled(read(LINEAR).inv_freq, 9)
    assert torch.equal(table[8], precompute_scaled(inv_freq(64), 3)[2])


@pytest.mark.parametrize(
    "seq_len, base",
    [(None, 10_000), (1, 10_000), (2048, 10_000), (4096, 31_082.24), (8192, 74_534.83)],
)
def test_dynamic_ntk_raises_the_base_with_the_length(seq_len, base):
    scaled = read(DYNAMIC, max_position_embeddings=2048, seq_len=seq_len)
    torch.testing.assert_close(scaled.inv_freq, inv_freq(64, base), rtol=2e-7, atol=0)


@pytest.mark.parametrize("parameters", [DYNAMIC, LONGROPE], ids=["dynamic", "longrope"])
def test_after_a_long_text_a_short_one_has_the_short_angles_again(parameters):
    short = read(parameters, max_position_embeddings=2048, seq_len=100)
    long = read(parameters, max_position_embeddings=2048, seq_len=4096)
    assert not torch.equal(short.inv_freq, long.inv_freq)
    assert_same(read(parameters, max_position_embeddings=2048, seq_len=100), short)


def test_llama_3_1_keeps_the_fast_pairs_and_slows_the_slow_ones():
    parameters = LLAMA3 | {"original_max_position_embeddings": 8192}
    scaled = read(parameters, 64, 131_072, rope_theta=500_000.0)
    ratio = (scaled.inv_freq / inv_freq(64, 500_000.0)).tolist()
    assert ratio[:15] == [1.0] * 15
    assert ratio[15:18] == pytest.approx([0.605573, 0.303743, 0.103448], abs=5e-7)
    assert ratio[18:] == pytest.approx([1 / 32] * 14, rel=1e-12)


def test_yarn_stretches_scores_by_the_square_of_its_attention_factor():
    assert read(YARN).attention_factor ** 2 == pytest.approx(1.29648, abs=5e-6)


def test_yarn_is_that_of_the_code_and_not_that_of_the_paper():
    ours = read(YARN).inv_freq
    assert torch.equal(ours, yarn_along_pairs(64, 4, 2048))
    assert ((ours / yarn(64, 4, 2048)) > 1.3).any()


def test_longrope_takes_the_long_list_past_the_trained_length():
    slowed = {
        seq_len: (inv_freq(64) / read(LONGROPE, seq_len=seq_len).inv_freq).tolist()
        for seq_len in (None, 2048, 2049)
    }
    assert slowed[None] == slowed[2048]
    assert slowed[2048] == pytest.approx(LONGROPE["short_factor"])
    assert slowed[2049] == pytest.approx(LONGROPE["long_factor"])


def test_proportional_lets_the_slow_pairs_stand_still():
    scaled = read(PROPORTIONAL)
    assert torch.equal(scaled.inv_freq[:8], inv_freq(64)[:8])
    assert scaled.inv_freq[8:].tolist() == [0.0] * 24


def test_a_part_of_a_head_has_its_own_size_in_the_exponent():
    assert torch.equal(read({"partial_rotary_factor": 0.25}, 96).inv_freq, inv_freq(24))


# --- Spellings ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", EVERY)
def test_the_old_spelling_says_the_same_as_the_new(kind):
    new = EVERY[kind] | {"rope_theta": 500_000.0, "partial_rotary_factor": 1.0}
    old = dict(new)
    old["type"] = "su" if kind == "longrope" else old["rope_type"]
    beside = {
        name: old.pop(name, None)
        for name in (
            "rope_theta",
            "partial_rotary_factor",
            "original_max_position_embeddings",
        )
    }
    both = read(old, **beside)  # "type" and "rope_type" agree
    del old["rope_type"]
    assert_same(read(old, **beside), read(new))
    assert_same(both, read(new))
    assert_same(read(new, **beside), read(new))


@pytest.mark.parametrize("kind", ["yarn", "longrope"])
def test_a_null_is_as_good_as_nothing_where_a_field_may_be_left_out(kind):
    signature = TYPES[kind].__kwdefaults__
    nulls = {name: None for name, default in signature.items() if default is None}
    assert_same(read(EVERY[kind] | nulls | {"rope_theta": None}), read(EVERY[kind]))


@pytest.mark.parametrize("kind", ["yarn", "longrope"])
def test_a_null_factor_is_the_ratio_of_the_lengths(kind):
    given, null = (read(EVERY[kind] | {"factor": factor}) for factor in (4.0, None))
    assert_same(given, null)


def test_a_factor_that_is_given_counts_whatever_the_lengths_say():
    # as Qwen3 is published: 40,960 positions, of which 32,768 were trained
    published = YARN | {"original_max_position_embeddings": 32_768, "factor": 4.0}
    assert_same(
        read(published, max_position_embeddings=40_960),
        read(published, max_position_embeddings=131_072),
    )


def test_the_trained_length_is_the_whole_length_unless_it_is_given():
    untold = {"rope_type": "yarn", "factor": 4.0}
    assert_same(read(untold, max_position_embeddings=2048), read(YARN))


def test_a_config_may_have_a_trained_length_that_its_type_does_not_need():
    assert_same(read(None, original_max_position_embeddings=4096), read(None))


def test_the_dictionary_is_left_as_it_was():
    parameters = YARN | {"rope_theta": 500_000.0}
    before = dict(parameters)
    read(parameters)
    assert parameters == before


def test_what_comes_back_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        read(None).attention_factor = 2.0


# --- Against transformers -------------------------------------------------------------


def hugging_face(rope_parameters, d_head, max_position_embeddings, seq_len, **beside):
    """(inv_freq, attention factor) of transformers for the same config."""
    rope_utils = pytest.importorskip("transformers.modeling_rope_utils")
    from transformers import LlamaConfig
    from transformers.models.stablelm.modeling_stablelm import StableLmRotaryEmbedding

    parameters = dict(rope_parameters or {})
    for name in ("type", "rope_type"):
        if parameters.get(name) == "su":  # only Phi-3's own config knows the old name
            parameters[name] = "longrope"
    config = LlamaConfig(
        hidden_size=d_head,
        num_attention_heads=1,
        head_dim=d_head,
        max_position_embeddings=max_position_embeddings,
        rope_scaling=parameters,
        **{name: value for name, value in beside.items() if value is not None},
    )
    kind = config.rope_parameters["rope_type"]
    if kind == "default":  # Llama's own takes no partial_rotary_factor
        return StableLmRotaryEmbedding.compute_default_rope_parameters(config)
    return rope_utils.ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=seq_len)


def random_config(rng, kind):
    """Arguments for `from_hugging_face`, over all fields that a type has."""

    def perhaps(name, draw):
        return {name: draw()} if rng.random() < 0.5 else {}

    d_head = rng.choice([8, 32, 64, 80, 96, 128, 256])
    share = rng.choice([0.25, 0.5, 0.75, 1.0])
    rotary_dim = int(d_head * share) // 4 * 4 or 4
    share = rotary_dim / d_head
    trained = rng.choice([128, 1000, 2048, 4096, 8192, 32_768])
    factor = rng.choice([1, 1.0, 1.5, 2, 3.7, 4.0, 8.0, 32.0, rng.uniform(1, 64)])
    fields = {"factor": factor}
    length = trained
    if kind == "default":
        fields = {}
    elif kind == "proportional":
        fields = perhaps("factor", lambda: factor)
    elif kind == "yarn":
        fast, slow = sorted((rng.uniform(0.1, 64), rng.uniform(0.1, 64)), reverse=True)
        fields |= perhaps("beta_fast", lambda: max(fast, 1))
        fields |= perhaps("beta_slow", lambda: min(slow, 32))
        fields |= perhaps("truncate", lambda: rng.random() < 0.5)
        weights = rng.choice(["none", "given", "mscale"])
        if weights == "given":
            fields["attention_factor"] = rng.uniform(0.5, 2)
        if weights == "mscale":
            fields["mscale"] = rng.uniform(0.1, 2)
            fields["mscale_all_dim"] = rng.uniform(0.1, 2)
        length = rng.choice([trained, int(trained * factor), 5 * trained // 4])
        if length == trained * factor:
            fields["factor"] = rng.choice([factor, None])
    elif kind == "longrope":
        length = trained * rng.choice([1, 2, 32])
        fields = perhaps("factor", lambda: factor)
        fields |= perhaps("attention_factor", lambda: rng.uniform(0.5, 2))
        for name in ("short_factor", "long_factor"):
            fields[name] = [rng.uniform(0.9, 64) for _ in range(rotary_dim // 2)]
    elif kind == "llama3":
        length = trained * rng.choice([2, 16])
        fields["low_freq_factor"] = rng.uniform(0.1, 4)
        fields["high_freq_factor"] = fields["low_freq_factor"] + rng.uniform(0.1, 8)
    names = [{"rope_type": kind}, {"type": kind}, {"rope_type": kind, "type": kind}]
    if kind == "longrope":
        names.append({"type": "su"})
    fields |= rng.choice(names)
    beside = {
        "rope_theta": rng.choice([None, 100.0, 10_000, 500_000.0, 1e6, 1e7]),
        "partial_rotary_factor": share if share < 1 or rng.random() < 0.5 else None,
    }
    if kind in ("yarn", "longrope", "llama3"):
        beside["original_max_position_embeddings"] = trained
    for name in list(beside):
        if beside[name] is not None and rng.random() < 0.5:
            fields[name] = beside.pop(name)
    around = [1, trained - 1, trained, trained + 1, length, 2 * length, 10 * length + 3]
    seq_len = rng.choice([None, *around])
    return fields, d_head, length, seq_len, beside


def random_pairs(kind):
    """(ours, theirs, their attention factor, what was asked) for a hundred configs."""
    rng = random.Random(f"rope {kind}")
    for _ in range(100):
        fields, d_head, length, seq_len, beside = random_config(rng, kind)
        ours = from_hugging_face(fields, d_head, length, seq_len=seq_len, **beside)
        theirs, factor = hugging_face(fields, d_head, length, seq_len, **beside)
        assert ours.inv_freq.dtype == torch.float64
        said = f"{fields}, {d_head}, {length}, {seq_len}, {beside}"
        assert ours.attention_factor == pytest.approx(factor, rel=1e-12), said
        yield ours.inv_freq, theirs, said


@pytest.mark.parametrize("kind", TYPES)
def test_random_configs_give_what_transformers_computes(kind):
    for ours, theirs, said in random_pairs(kind):
        assert_float32_close(ours, theirs, said)


@pytest.mark.parametrize("kind", TYPES)
def test_and_far_closer_if_transformers_computes_in_float64(kind, monkeypatch):
    rope_utils = pytest.importorskip("transformers.modeling_rope_utils")
    from transformers.models.stablelm import modeling_stablelm

    class Torch64:
        float = float32 = torch.float64

        def __getattr__(self, name):
            return getattr(torch, name)

    monkeypatch.setattr(rope_utils, "torch", Torch64())
    monkeypatch.setattr(modeling_stablelm, "torch", Torch64())
    monkeypatch.setattr(torch.Tensor, "float", torch.Tensor.double)
    for ours, theirs, said in random_pairs(kind):
        assert ours.tolist() == pytest.approx(theirs.tolist(), rel=1e-13, abs=0), said


def assert_float32_close(ours, theirs, said=""):
    """Equal but for the rounding of theirs: they compute in float32 throughout.

    A power of the base is off by 5e-7 at most, a frequency in a narrow band of Llama 3.1
    or YaRN by up to 7e-6, because it is the difference of larger numbers.
    """
    assert ours.dtype == torch.float64 and theirs.dtype == torch.float32
    torch.testing.assert_close(
        ours.float(), theirs, rtol=1e-5, atol=0, msg=lambda why: f"{why}\n{said}"
    )


def test_every_type_of_transformers_is_known():
    rope_utils = pytest.importorskip("transformers.modeling_rope_utils")
    assert set(TYPES) == {"default", *rope_utils.ROPE_INIT_FUNCTIONS}


@pytest.mark.parametrize("parameters", [DYNAMIC, LONGROPE], ids=["dynamic", "longrope"])
def test_a_model_of_transformers_has_the_same_angles_short_long_and_short(parameters):
    pytest.importorskip("transformers")
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = LlamaConfig(
        hidden_size=64,
        num_attention_heads=1,
        max_position_embeddings=2048,
        rope_parameters=dict(parameters),
    )
    rotary = LlamaRotaryEmbedding(config)
    for seq_len in (100, 2048, 4096, 8192, 100):
        rotary(torch.zeros(1), torch.arange(seq_len)[None])
        ours = read(parameters, max_position_embeddings=2048, seq_len=seq_len)
        assert_float32_close(ours.inv_freq, rotary.inv_freq)
        assert ours.attention_factor == pytest.approx(rotary.attention_scaling)


# --- Published models -----------------------------------------------------------------


@pytest.mark.parametrize("name", PUBLISHED)
def test_transformers_reads_a_published_model_the_same(name):
    model = PUBLISHED[name]
    for seq_len in (None, model.trained_length, model.trained_length + 1):
        ours = model.scaled(seq_len)
        theirs, factor = hugging_face(
            model.rope_scaling,
            model.d_head,
            model.max_position_embeddings,
            seq_len,
            rope_theta=model.base,
            original_max_position_embeddings=model.trained_length,
        )
        assert_float32_close(ours.inv_freq, theirs)
        assert ours.attention_factor == pytest.approx(factor, rel=1e-12)


def test_phi_3_has_a_factor_for_each_of_its_48_pairs():
    phi = PUBLISHED["Phi-3 mini 128k"]
    for name in ("short_factor", "long_factor"):
        factors = phi.rope_scaling[name]
        assert len(factors) == 48 and list(factors) == sorted(factors)
    # sqrt(1 + ln(32) / ln(4096)), and 32 = 2^5, 4096 = 2^12
    assert phi.scaled().attention_factor == pytest.approx(math.sqrt(17 / 12))


# --- What is refused ------------------------------------------------------------------


NO_NUMBERS = [
    ("4", TypeError, "str"),
    (True, TypeError, "bool"),
    ([4.0], TypeError, "list"),
    (math.nan, ValueError, "nan"),
    (math.inf, ValueError, "inf"),
    (-1.0, ValueError, "-1.0"),
]
NUMBERS = [
    (LINEAR, "factor"),
    (DYNAMIC, "factor"),
    (YARN, "factor"),
    (YARN, "attention_factor"),
    (YARN, "beta_fast"),
    (YARN, "beta_slow"),
    (YARN | {"mscale_all_dim": 1.0}, "mscale"),
    (YARN | {"mscale": 1.0}, "mscale_all_dim"),
    (LONGROPE, "factor"),
    (LONGROPE, "attention_factor"),
    (LLAMA3, "factor"),
    (LLAMA3, "low_freq_factor"),
    (LLAMA3, "high_freq_factor"),
    (PROPORTIONAL, "factor"),
    *((parameters, "rope_theta") for parameters in ({}, *EVERY.values())),
    *((parameters, "partial_rotary_factor") for parameters in ({}, *EVERY.values())),
]


@pytest.mark.parametrize("value, error, came", NO_NUMBERS)
@pytest.mark.parametrize("parameters, name", NUMBERS)
def test_a_field_that_is_no_fitting_number_is_refused(
    parameters, name, value, error, came
):
    assert_refused(lambda: read(parameters | {name: value}), error, name, came)


@pytest.mark.parametrize("name", ["rope_theta", "partial_rotary_factor"])
@pytest.mark.parametrize("value, error, came", NO_NUMBERS)
def test_the_same_beside_the_dictionary_is_refused(name, value, error, came):
    assert_refused(lambda: read(None, **{name: value}), error, name, came)


@pytest.mark.parametrize(
    "value, error, came",
    [
        (0, ValueError, "0"),
        (2048.0, TypeError, "2048.0 (float)"),
        ("2048", TypeError, "'2048' (str)"),
        (True, TypeError, "True (bool)"),
    ],
)
def test_a_length_that_is_none_is_refused(value, error, came):
    def refused(call, name):
        assert_refused(call, error, name, came)

    name = "original_max_position_embeddings"
    for parameters in (YARN, LONGROPE, LLAMA3):
        refused(lambda p=parameters: read(p | {name: value}), name)
    refused(lambda: read(None, **{name: value}), name)
    refused(lambda: read(DYNAMIC, seq_len=value), "seq_len")
    refused(lambda: from_hugging_face({}, 64, value), "max_position_embeddings")
    refused(lambda: from_hugging_face({}, value, 2048), "d_head")


@pytest.mark.parametrize(
    "parameters, name",
    [
        (LINEAR, "factor"),
        (DYNAMIC, "factor"),
        (YARN, "factor"),
        (LONGROPE, "short_factor"),
        (LONGROPE, "long_factor"),
        (LLAMA3, "factor"),
        (LLAMA3, "low_freq_factor"),
        (LLAMA3, "high_freq_factor"),
    ],
)
def test_a_field_that_a_type_needs_and_lacks_is_refused(parameters, name):
    lacking = {key: value for key, value in parameters.items() if key != name}
    assert_refused(lambda: read(lacking), ValueError, name, "nothing")


@pytest.mark.parametrize("kind", EVERY)
@pytest.mark.parametrize(
    "name", ["finetuned", "short_mscale", "mrope_section", "betas"]
)
def test_a_field_that_no_type_has_is_refused(kind, name):
    assert_refused(lambda: read(EVERY[kind] | {name: 1.0}), ValueError, name, kind)


@pytest.mark.parametrize(
    "parameters, name",
    [
        (LINEAR, "beta_fast"),
        (LINEAR, "original_max_position_embeddings"),
        (DYNAMIC, "attention_factor"),
        (DYNAMIC, "original_max_position_embeddings"),
        (YARN, "low_freq_factor"),
        (LONGROPE, "mscale"),
        (LLAMA3, "attention_factor"),
        (PROPORTIONAL, "short_factor"),
    ],
)
def test_a_field_of_another_type_is_refused(parameters, name):
    kind = parameters["rope_type"]
    assert_refused(lambda: read(parameters | {name: 1.0}), ValueError, name, kind)


def test_a_factor_without_a_type_is_refused():
    assert_refused(lambda: read({"factor": 4.0}), ValueError, "factor", "default")


@pytest.mark.parametrize("name", ["type", "rope_type"])
def test_a_type_that_is_none_is_refused_with_those_that_are(name):
    assert_refused(lambda: read({name: 4}), TypeError, name, "int")
    with pytest.raises(ValueError) as caught:
        read({name: "ntk", "factor": 4.0})
    known = "default, linear, dynamic, yarn, longrope, llama3, proportional"
    assert str(caught.value) == f"{name}: got 'ntk', want one of {known}"


def test_what_is_no_dictionary_of_fields_is_refused():
    for value, came in [("su", "str"), ([LINEAR], "list"), (4.0, "float")]:
        assert_refused(lambda v=value: read(v), TypeError, "rope_parameters", came)
    layers = {"full_attention": LINEAR, "sliding_attention": {}}
    assert_refused(
        lambda: read(layers), ValueError, "rope_parameters", "'full_attention'"
    )


def test_two_types_that_differ_are_refused():
    parameters = LINEAR | {"type": "dynamic"}
    assert_refused(lambda: read(parameters), ValueError, "rope_type", "'linear'")


@pytest.mark.parametrize(
    "name, inside, beside",
    [
        ("rope_theta", 10_000.0, 500_000.0),
        ("partial_rotary_factor", 1.0, 0.5),
        ("original_max_position_embeddings", 2048, 4096),
    ],
)
def test_a_value_that_differs_inside_and_beside_is_refused(name, inside, beside):
    assert_refused(
        lambda: read(YARN | {name: inside}, **{name: beside}),
        ValueError,
        name,
        f"{inside!r} in the dictionary and {beside!r} beside it",
    )


@pytest.mark.parametrize(
    "parameters, name, came",
    [
        (LINEAR | {"factor": 0.5}, "factor", "0.5"),
        (YARN | {"beta_fast": 1.0, "beta_slow": 2.0}, "beta_fast", "1.0"),
        (YARN | {"beta_slow": 33}, "beta_fast", "32.0"),
        (YARN | {"beta_fast": 0.5}, "beta_fast", "0.5"),
        (YARN | {"mscale": 1.0}, "mscale_all_dim", "nothing"),
        (YARN | {"mscale_all_dim": 1.0}, "mscale", "nothing"),
        (
            YARN | {"mscale": 1.0, "mscale_all_dim": 1.0, "attention_factor": 1.0},
            "attention_factor",
            "1.0",
        ),
        (YARN | {"rope_theta": 1.0}, "rope_theta", "1.0"),
        (
            YARN | {"factor": None, "original_max_position_embeddings": 16_384},
            "original_max_position_embeddings",
            "16384",
        ),
        (LLAMA3 | {"low_freq_factor": 4.0}, "low_freq_factor", "4.0"),
        (LLAMA3 | {"low_freq_factor": 5.0}, "low_freq_factor", "5.0"),
        (
            LLAMA3 | {"original_max_position_embeddings": 8192},
            "original_max_position_embeddings",
            "8192",
        ),
        (LONGROPE | {"short_factor": [1.0] * 31}, "short_factor", "31 numbers"),
        (LONGROPE | {"long_factor": [1.0] * 33}, "long_factor", "33 numbers"),
        (LONGROPE | {"long_factor": [1.0] * 31 + [0]}, "long_factor[31]", "0"),
        (LONGROPE | {"short_factor": [math.nan] * 32}, "short_factor[0]", "nan"),
        (LONGROPE | {"partial_rotary_factor": 0.5}, "short_factor", "32 numbers"),
        ({"partial_rotary_factor": 1.5}, "partial_rotary_factor", "1.5"),
        ({"partial_rotary_factor": 0.01}, "partial_rotary_factor", "0 of 64"),
        ({"partial_rotary_factor": 0.3}, "partial_rotary_factor", "19 of 64"),
    ],
)
def test_values_that_cannot_be_or_contradict_each_other_are_refused(
    parameters, name, came
):
    assert_refused(lambda: read(parameters), ValueError, name, came)


def test_fields_of_a_wrong_type_are_refused():
    for value, came in [("1 2", "str"), (1.0, "float"), (None, "NoneType")]:
        assert_refused(
            lambda v=value: read(LONGROPE | {"long_factor": v}),
            TypeError,
            "long_factor",
            came,
        )
    many = [1.0] * 31
    for value, came in [("1", "str"), (True, "bool"), (None, "NoneType")]:
        assert_refused(
            lambda v=value: read(LONGROPE | {"short_factor": [*many, v]}),
            TypeError,
            "short_factor[31]",
            came,
        )
    for value in (None, 1, "no"):
        assert_refused(
            lambda v=value: read(YARN | {"truncate": v}),
            TypeError,
            "truncate",
            repr(value),
        )
    for parameters in (LINEAR, DYNAMIC, LLAMA3):
        assert_refused(
            lambda p=parameters: read(p | {"factor": None}),
            TypeError,
            "factor",
            "NoneType",
        )


def test_an_odd_head_is_refused_and_one_pair_where_two_are_needed():
    assert_refused(lambda: read(None, d_head=63), ValueError, "d_head", "63")
    assert_refused(lambda: read(DYNAMIC, d_head=2), ValueError, "d_head", "2")
    assert_refused(
        lambda: read(DYNAMIC | {"partial_rotary_factor": 0.25}, d_head=8),
        ValueError,
        "partial_rotary_factor",
        "0.25",
    )
