"""Public reports of estimators that counted a model wrong: the right counts, from configurations alone.

Each test names the report (B.. is our id, its tracker beside it); expected values are the report's right values or follow
from the shape it gives. What needs a machine or a workload is tested in test_reports.py.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from rooflab import hf
from rooflab.model import Attention, Model, MoE

KIB, MIB, GIB = 2**10, 2**20, 2**30
REPORTS = Path(__file__).parent / "configs" / "reports"


def report(name: str) -> Model:
    return hf.load(str(REPORTS / f"{name}.json"))


def cache_bytes(model: Model, context: float, size: float = 2.0) -> float:
    """KV cache of one sequence, index keys included."""
    return size * (model.kv_elements(context) + model.index_elements(context))


def per_token(model: Model, far: float = 1e6) -> float:
    """Bytes one more token costs once every window is full."""
    return cache_bytes(model, far + 1) - cache_bytes(model, far)


# ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, total, active",
    [
        ("llama-3.2-1b", 1_235_814_400, None),
        ("llama-3.1-8b", 8_030_261_248, None),
        ("llama-3.1-70b", 70_553_706_496, None),
        ("llama-3.1-405b", 405_853_388_800, None),
        ("qwen2.5-0.5b", 494_032_768, None),
        ("qwen2-1.5b", 1_543_714_304, None),  # Qwen2.5-1.5B has the same shape
        ("qwen2.5-7b", 7_615_616_512, None),
        ("qwen2.5-72b", 72_706_203_648, None),
        ("qwen3-8b", 8_190_735_360, None),
        ("qwen3-32b", 32_762_123_264, None),
        ("mixtral-8x7b", 46_702_792_704, 12.88e9),
        # The requirement lists 140,630,071,296 for Mixtral-8x22B, 9,437,184 more: that is (32,768 - 32,000) × 6,144 × 2, the
        # vocabulary of the instruct models; the base model's config has 32,000.
        ("mixtral-8x22b", 140_620_634_112, 39.15e9),
        ("qwen3-30b-a3b", 30_532_122_624, 3.35e9),
        ("qwen3-235b-a22b", 235_093_634_560, 22.19e9),
        # The requirement lists 671,026,419,200: 58 × 256 = 14,848 router correction biases more, which the reference
        # implementation keeps as buffers, and not as parameters.
        ("deepseek-v3", 671_026_419_200 - 58 * 256, 37.55e9),
    ],
)
def test_published_counts_a037(name: str, total: int, active: float | None):
    model = hf.load(name)
    assert model.params() == total
    assert model.active_params() == pytest.approx(active or total, rel=2e-3)


def test_tinyllama_by_its_published_shape_a037():
    shape = {"hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32}
    model = hf.read({"model_type": "llama", **shape, "num_key_value_heads": 4, "vocab_size": 32000})
    assert model.params() == 1_100_048_384


def test_mixtral_8x22b_with_its_instruct_vocabulary_a037():
    config = json.loads((Path(hf.source.CATALOG) / "mixtral-8x22b.json").read_text())
    assert hf.read({**config, "vocab_size": 32768}).params() == 140_630_071_296


# ------------------------------------------------------------------------------------------------ weights


def test_b01_the_head_counts_and_bf16_is_not_halved():
    """huggingface/accelerate #3379: 64.73 for Llama-3.1-70B, which is the model without its head, halved."""
    model = hf.load("llama-3.1-70b")
    assert 2 * model.params() == 141_107_412_992
    assert model.params() - model.output_params() == 69_503_033_344
    assert model.dtype == "bf16"


def test_b07_total_and_active_are_not_mixed_up():
    """AlexsJones/llmfit #230, #497: every expert is resident."""
    small, large = hf.load("qwen3.5-122b-a10b"), hf.load("deepseek-v3")
    everything = small.params() + (small.vision_params or 0)
    assert everything == pytest.approx(122.6e9, rel=1e-3)
    assert everything + (small.mtp_params or 0) == pytest.approx(125.1e9, rel=1e-3)
    assert large.params() == pytest.approx(671e9, rel=1e-3)
    assert large.active_params() < large.params() / 17


def test_b23_sizes_come_from_shapes_and_never_from_names():
    """gpustack/gpustack #1503: DeepSeek-R1 has no "B" in its name: 0 bytes. Published: 684,489,845,504 with its MTP module
    and 15,104 router correction biases (59 × 256)."""
    model = hf.load("deepseek-r1")
    assert model.params() + (model.mtp_params or 0) == 684_489_845_504 - 59 * 256
    config = {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "vocab_size": 100,
    }
    plain, boastful = hf.read(config, "model-70B"), hf.read({**config, "_name_or_path": "model-405B"})
    assert plain.params() == boastful.params() < 1e6


def test_b37_a_hybrid_is_what_its_pattern_says():
    """inference-sim #1559, TensorRT-LLM #5371, ai-dynamo/aisimulate #176: attention and gated networks on all 88 layers."""
    config = json.loads((REPORTS / "nemotron-3-super.json").read_text())
    model = hf.read({**config, "num_nextn_predict_layers": 1, "mtp_hybrid_override_pattern": "*E"})
    assert model.params() == 120_668_687_360
    assert model.mtp_params == 2_942_324_736
    assert cache_bytes(model, 1) == 8_192
    assert cache_bytes(model, 131_072) == GIB
    assert model.state_elements() == pytest.approx(43.6e6, rel=1e-3)
    without_count = {key: value for key, value in config.items() if key != "num_hidden_layers"}
    words = {"M": "mamba", "E": "moe", "*": "attention"}
    listed = {**without_count, "layers_block_type": [words[letter] for letter in config["hybrid_override_pattern"]]}
    del listed["hybrid_override_pattern"]
    assert hf.read(listed).params() == 120_668_687_360
    (experts,) = [block.ffn for block in model.blocks if isinstance(block.ffn, MoE)]
    assert (experts.latent, experts.gated) == (1024, False)


def test_b39_routed_parameters_of_kimi():
    """ai-dynamo/aiconfigurator #1390: 1.0147e12 routed parameters shard by EP."""
    model = hf.load("kimi-k2.6")
    routed = sum(
        block.count * block.ffn.experts * block.ffn.expert_params(model.hidden)
        for block in model.blocks
        if isinstance(block.ffn, MoE)
    )
    assert routed == pytest.approx(1.0147e12, rel=1e-4)
    assert model.quantization == {"expert": "int4_g32"}  # only the experts are


def test_b49_a_tied_head_saves_parameters_and_no_work():
    """huggingface/trl #6708, pytorch/torchtitan #3225: head of Llama-3.2-1B: 525,336,576 FLOP a token, tied or not."""
    model = hf.load("llama-3.2-1b")
    assert model.tied
    assert model.output_params() == 0
    assert 2 * model.vocab * model.hidden == 525_336_576
    config = json.loads((Path(hf.source.CATALOG) / "llama-3.2-1b.json").read_text())
    untied = hf.read({**config, "tie_word_embeddings": False})
    assert untied.params() - model.params() == model.vocab * model.hidden
    assert model.active_params_without_embedding() == untied.active_params_without_embedding()


def test_b53_experts_are_read_under_their_own_keys():
    """ai-dynamo/aiconfigurator #1039, dynamo #8273: another model's shape, or a dense model, for missing keys."""
    (minimax,) = [block.ffn for block in hf.load("minimax-m2.5").blocks]
    assert isinstance(minimax, MoE)
    assert (minimax.width, minimax.experts) == (1536, 256)
    assert all(
        isinstance(block.ffn, MoE) and block.ffn.shared_width == 512 for block in hf.load("qwen3.5-35b-a3b").blocks
    )


def test_b55_untied_heads_wide_networks_and_experts_count():
    """llmfit 1.1.17's table: 5.55e9, 5.46e9, 10.9e9, 36.2e9; active 54.5e9 for DeepSeek-V3.1, 9.3e9 for gpt-oss-120b."""
    here = REPORTS.parent
    assert hf.load("baichuan2-7b").params() == 7_505_973_248
    shape: dict[str, Any] = {
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
    }
    internlm = {"model_type": "internlm", **shape, "vocab_size": 103168, "bias": True, "tie_word_embeddings": False}
    assert hf.read(internlm).params() == 7_321_948_160
    assert hf.load(str(here / "OrionStarAI__Orion-14B-Chat.json")).params() == 14_498_703_360
    grok = hf.load(str(here / "xai-org__grok-1.RECON.json"))
    assert grok.params() == pytest.approx(315.7e9, rel=1e-3)
    assert grok.params() - grok.embedding_params() == pytest.approx(314.9e9, rel=1e-3)
    assert hf.load("deepseek-v3.1").active_params() == pytest.approx(37.6e9, rel=2e-3)
    gpt = hf.load("gpt-oss-120b")
    assert gpt.active_params() == pytest.approx(5.71e9, rel=1e-3)
    assert gpt.active_params_without_embedding() == pytest.approx(5.13e9, rel=1e-3)


# ------------------------------------------------------------------------------------------------ caches


def test_b04_a_latent_is_cached_once():
    """LMCache #694: 2 × layers × 512; right is one latent and one rotary key: (512 + 64) × 61 × 2."""
    model = hf.load("deepseek-v3")
    assert per_token(model) == 70_272
    assert cache_bytes(model, 131_072) / GIB == pytest.approx(8.58, abs=0.005)


@pytest.mark.parametrize("size", [2.0, 1.0, 34 / 32], ids=["bf16", "fp8", "q8_0"])
def test_b05_b09_linear_layers_have_no_cache_in_any_format(size: float):
    """LMCache #3080, llmfit #951: all layers were charged, in all formats or all but one."""
    model = hf.load("qwen3.5-27b")
    assert cache_bytes(model, 1000, size) == 1000 * 65_536 / 2 * size
    assert model.state_elements() == pytest.approx(39.7e6, rel=1e-3)


def test_b13_windowed_layers_stop_growing():
    """hf-mem #70: gpt-oss-20b at 8,192 tokens, batch 32: 6.094 GiB is what the architecture needs."""
    model = hf.load("gpt-oss-20b")
    assert cache_bytes(model, 8192) == 204_472_320
    assert 32 * cache_bytes(model, 8192) / GIB == pytest.approx(6.094, abs=0.001)
    assert 32 * 8192 * cache_bytes(model, 1) / GIB == 12.0  # what an allocator that ignores windows reserves


def test_b15_the_rate_depends_on_the_context():
    """redhat-performance/configiq #112: gemma-4-31b: 880 KiB a token inside the windows, 80 KiB beyond; and bf16 cache
    unless the config says otherwise, which this NVFP4 file does (fp8)."""
    model = hf.load("gemma-4-31b-nvfp4")
    assert cache_bytes(model, 1) == 880 * KIB
    assert per_token(model) == 80 * KIB
    assert cache_bytes(model, 131_072) / GIB == pytest.approx(10.78, abs=0.01)
    assert hf.load("deepseek-v3").quantization.get("kv") is None


def test_b17_index_keys_count():
    """TensorRT-LLM #16707: (512 + 64 + 128) × 61 × 2 = 85,888; 70,272 without the index keys."""
    model = hf.load("deepseek-v3.2")
    assert per_token(model) == 85_888
    assert 2 * model.kv_elements(1.0) == 70_272


def test_b19_only_some_layers_have_an_indexer():
    """sglang #30531, LMCache #5002: 21 of 78 layers: 95,232 B a token in bf16, 47,700 in fp8 with 132-byte index keys."""
    model = report("glm-5.2")
    assert model.index_layers() == 21
    assert per_token(model) == 95_232
    assert 78 * 576 + model.index_layers() * 132 == 47_700
    every = json.loads((REPORTS / "glm-5.2.json").read_text())
    pattern = "".join("F" if kind == "full" else "S" for kind in every.pop("indexer_types"))
    assert per_token(hf.read({**every, "index_topk_pattern": pattern})) == 95_232
    assert hf.read(every).index_layers() == 78


def test_b21_most_layers_of_gemma_3_are_windowed():
    """gpustack #2101: 139 GB; right is 10.17 GiB at 128,000 tokens in bf16."""
    assert cache_bytes(hf.load("gemma-3-27b"), 128_000) / GIB == pytest.approx(10.17, abs=0.01)


def test_b25_two_pools_are_added():
    """ollama #17037: gemma3:4b at 128K: full layers 5 × 4,096 B × 131,072 = 2,560 MiB, windowed ones beside them."""
    model = report("gemma-3-4b")
    rates = {block.mixer.window: block.count for block in model.blocks if isinstance(block.mixer, Attention)}
    assert rates == {0: 5, 1024: 29}
    assert cache_bytes(model, 131_072) / MIB == 2560.0 + 29 * 4096 * 1024 / MIB


def test_b27_cache_formats():
    """ollama #10128: Qwen2.5-7B at 262,144: 14.0 GiB at f16, 7.44 GiB at q8_0 (34 bytes per 32)."""
    model = hf.load("qwen2.5-7b")
    assert cache_bytes(model, 262_144) / GIB == 14.0
    assert cache_bytes(model, 262_144, 34 / 32) / GIB == pytest.approx(7.44, abs=0.005)


def test_b29_a_guard_counts_the_layers_that_have_a_cache():
    """jundot/omlx #2725: 64 tokens of a 27B hybrid: 4 MiB and not 16."""
    assert cache_bytes(hf.load("qwen3.5-27b"), 64) == 4 * MIB


def test_b31_eight_heads_in_405b():
    """huggingface/blog #2345: 123.05 GB for Llama-3.1-405B at 128k; right is 516,096 B a token."""
    model = hf.load("llama-3.1-405b")
    assert per_token(model) == 516_096
    assert cache_bytes(model, 131_072) == 67_645_734_912


def test_b51_layers_that_share_keys_have_no_cache():
    """unslothai/unsloth #5225: gemma-4-E2B: 15 of 35 layers, 0.756 GiB at 131,072."""
    model = report("gemma-4-e2b")
    owners = sum(
        block.count for block in model.blocks if isinstance(block.mixer, Attention) and not block.mixer.shares_kv
    )
    assert (owners, model.layers) == (15, 35)
    assert cache_bytes(model, 131_072) / GIB == pytest.approx(0.756, abs=0.001)


def test_b51_unused_projections_are_not_counted():
    """The E2B checkpoint still ships 18,880,512 unused weights: 20 layers of K, V and their norms.

    By hand: windowed layers 2 × 1,536 × 256 + 256, full ones 2 × 1,536 × 512 + 512; of the last 20 layers 16 are windowed
    and 4 full: 16 × 786,688 + 4 × 1,573,376.
    """
    config = json.loads((REPORTS / "gemma-4-e2b.json").read_text())
    config["text_config"]["use_double_wide_mlp"] = False
    shared = hf.read(config)
    config["text_config"]["num_kv_shared_layers"] = 0
    assert hf.read(config).params() - shared.params() == 16 * 786_688 + 4 * 1_573_376 == 18_880_512
