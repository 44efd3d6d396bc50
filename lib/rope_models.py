"""What some models' publishers say about their RoPE: values, each with its source."""

from collections.abc import Mapping
from dataclasses import dataclass

from lib.rope_config import Scaled, from_hugging_face


@dataclass(frozen=True)
class Published:
    """What a model's publisher says about its RoPE, and where."""

    d_head: int
    base: float
    trained_length: int  # before any scaling of its frequencies
    max_position_embeddings: int
    rope_scaling: Mapping[str, object] | None
    source: str

    def scaled(self, seq_len: int | None = None) -> Scaled:
        """Its frequencies at the present length."""
        return from_hugging_face(
            self.rope_scaling,
            self.d_head,
            self.max_position_embeddings,
            rope_theta=self.base,
            original_max_position_embeddings=self.trained_length,
            seq_len=seq_len,
        )


# fmt: off
_PHI_3_SHORT = (
    1.05, 1.05, 1.05, 1.1, 1.1, 1.1500000000000001,
    1.2000000000000002, 1.2500000000000002, 1.3000000000000003,
    1.3500000000000003, 1.5000000000000004, *[2.000000000000001] * 21,
    2.0500000000000007, 2.0500000000000007, 2.0500000000000007,
    2.1000000000000005, 2.1000000000000005, 2.1000000000000005,
    2.1500000000000004, 2.1500000000000004, 2.3499999999999996,
    2.549999999999999, 2.5999999999999988, 2.5999999999999988,
    2.7499999999999982, 2.849999999999998, 2.849999999999998,
    2.9499999999999975,
)
_PHI_3_LONG = (
    1.0299999713897705, 1.0499999523162842, 1.0499999523162842,
    1.0799999237060547, 1.2299998998641968, 1.2299998998641968,
    1.2999999523162842, 1.4499999284744263, 1.5999999046325684,
    1.6499998569488525, 1.8999998569488525, 2.859999895095825,
    3.68999981880188, 5.419999599456787, 5.489999771118164,
    5.489999771118164, 9.09000015258789, 11.579999923706055,
    15.65999984741211, 15.769999504089355, 15.789999961853027,
    18.360000610351562, 21.989999771118164, 23.079999923706055,
    30.009998321533203, 32.35000228881836, 32.590003967285156,
    35.56000518798828, 39.95000457763672, 53.840003967285156,
    56.20000457763672, 57.95000457763672, 59.29000473022461,
    59.77000427246094, 59.920005798339844, 61.190006256103516,
    61.96000671386719, 62.50000762939453, 63.3700065612793,
    63.48000717163086, 63.48000717163086, 63.66000747680664,
    63.850006103515625, 64.08000946044922, 64.760009765625,
    64.80001068115234, 64.81001281738281, 64.81001281738281,
)
# fmt: on

PUBLISHED = {
    "Llama 2 7B": Published(
        d_head=128,
        base=10_000.0,
        trained_length=4096,
        max_position_embeddings=4096,
        rope_scaling=None,
        source="meta-llama/Llama-2-7b-hf, config.json",
    ),
    "Code Llama 7B": Published(
        d_head=128,
        base=1_000_000.0,
        trained_length=16_384,  # in the fine-tuning that gave it the base
        max_position_embeddings=16_384,
        rope_scaling=None,
        source="codellama/CodeLlama-7b-hf, config.json; Rozière et al., "
        "arXiv 2308.12950, section 2.4",
    ),
    "Mistral 7B v0.1": Published(
        d_head=128,
        base=10_000.0,
        trained_length=8192,
        max_position_embeddings=32_768,
        rope_scaling=None,
        source="mistralai/Mistral-7B-v0.1, config.json; Jiang et al., "
        "arXiv 2310.06825, table 1, for the trained length (context_len)",
    ),
    "Llama 3.1 8B": Published(
        d_head=128,
        base=500_000.0,
        trained_length=8192,
        max_position_embeddings=131_072,
        rope_scaling={
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
        source="meta-llama/Llama-3.1-8B-Instruct, config.json",
    ),
    "Qwen2.5 7B with YaRN": Published(
        d_head=128,
        base=1_000_000.0,
        trained_length=32_768,
        max_position_embeddings=32_768,
        rope_scaling={
            "type": "yarn",
            "factor": 4.0,
            "original_max_position_embeddings": 32_768,
        },
        source="Qwen/Qwen2.5-7B-Instruct, config.json, and its README, Processing Long "
        "Texts, for the dictionary, which one adds for texts beyond 32,768 tokens",
    ),
    "Phi-3 mini 128k": Published(
        d_head=96,
        base=10_000.0,
        trained_length=4096,
        max_position_embeddings=131_072,
        rope_scaling={
            "type": "su",
            "short_factor": _PHI_3_SHORT,
            "long_factor": _PHI_3_LONG,
        },
        source="microsoft/Phi-3-mini-128k-instruct, config.json as of April 2024, in "
        "dotnet/machinelearning, src/Microsoft.ML.GenAI.Phi/Resource/Config/"
        "phi-3-mini-128k-instruct-config.json; later releases have other factors",
    ),
}
