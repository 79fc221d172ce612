"""Reports of estimators that got memory, capacity, sharding or links wrong, asked end to end of `rooflab.api.answer`.

Every expected value is the report's own right value, or is derived from the model's published shape in the test. Each case
is a public report about another tool: the id B.. is ours, its tracker and number stand beside it. Pure parameter counts are
tested elsewhere. Configurations that no catalog holds are in tests/configs/reports, written from the shapes the reports give.
"""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from rooflab import api, catalog
from rooflab.units import InputError
from rooflab.work import FORMATS

HERE = Path(__file__).parent / "configs"
GIB, MIB = 2**30, 2**20
LONG = 131_072


def ask(kind: str, model: Any, **more: Any) -> dict[str, Any]:
    return api.answer({"kind": kind, "model": model, **more})


def inspect(model: Any, **more: Any) -> dict[str, Any]:
    return ask("inspect", model, **more)


def report_config(name: str) -> str:
    return str(HERE / "reports" / f"{name}.json")


def catalog_config(name: str) -> dict[str, Any]:
    return json.loads(catalog.model_path(name).read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------------------ weights


def test_b01_weights_are_counted_in_their_own_format_head_included():
    """huggingface/accelerate #3379: 64.73 "GB" for Llama-3.1-70B; right is 70,553,706,496 parameters × 2 B."""
    found = inspect("llama-3.1-70b")
    assert found["weight_bytes"] == 141_107_412_992
    assert found["weight_bytes"] / GIB == pytest.approx(131.4, abs=0.05)
    fit = ask("fit", "llama-3.1-70b", on="2x h200-sxm", tp=1)
    assert fit["memory"]["weights"] == 141_107_412_992
    spread = ask("fit", "llama-3.1-70b", on="dgx-h100", tp=8)
    norms = (2 * 80 + 1) * 8192 * 2  # held whole by every rank
    assert (spread["memory"]["weights"] - norms) * 8 + norms == pytest.approx(141_107_412_992, rel=1e-12)


GGUF = {"attention": "q6_k", "ffn": "q6_k", "expert": "q4_k", "embedding": "q4_k", "head": "q6_k"}
"""A Q4_K_M file of a mixture: the format named by the file for the experts, a wider one for what every token reads."""


def test_b07_all_experts_are_resident():
    """AlexsJones/llmfit #230, #497: 33 GB "perfect fit" on 48 GB; right is 71–73 GB and 389 GB: every expert, not the active."""
    small, large = inspect("qwen3.5-122b-a10b", weights=GGUF), inspect("deepseek-v3", weights=GGUF)
    assert 70e9 <= small["weight_bytes"] <= 73e9
    assert large["weight_bytes"] == pytest.approx(389e9, rel=0.02)
    for model in ("qwen3.5-122b-a10b", "deepseek-v3"):
        for weights in (GGUF, "q4_k"):
            fit = ask("fit", model, weights=weights, on="m3-ultra", changes={"memory": "48 GB"}, prompt=100, output=10)
            assert not fit["fits"]
            assert fit["largest"] == "weights"
            assert fit["memory"]["over"] > 20e9
    assert ask(
        "fit", "qwen3.5-122b-a10b", weights=GGUF, on="m3-ultra", changes={"memory": "96 GB"}, prompt=100, output=10
    )["fits"]


def test_b23_weights_do_not_depend_on_the_name():
    """gpustack #1503: 0 bytes for DeepSeek-R1, which has no size in its name; right is ~689 GB with the extra module."""
    config = catalog_config("deepseek-r1")
    for name in ("deepseek-r1", {**config, "_name_or_path": "tiny-1b"}, {**config, "_name_or_path": ""}):
        found = inspect(name)
        buffers = 59 * 256  # routers' correction biases, of 58 layers and the module, which the checkpoint counts
        assert found["params"] + found["other_params"]["mtp"] + buffers == 684_489_845_504
        # fp8 weights with a 4-byte scale per 128 × 128, bf16 embeddings and head (once more in the module)
        module = found["other_params"]["mtp"]
        assert found["weight_bytes"] + module == pytest.approx(689e9, rel=0.005)


def experts(lines: dict[str, float]) -> float:
    return math.fsum(size for name, size in lines.items() if name.startswith("experts_"))


def test_b39_experts_are_divided_by_expert_ranks():
    """ai-dynamo/aiconfigurator #1390: every expert on every GPU; right is 1.0147e12 routed, 507 GB at 4 bit, 63.4 GB at EP8."""
    weights = {"expert": "int4"}
    place = {"on": "dgx-b200", "tp": 1, "attention_dp": 8, "ep": 8, "batch": 8}
    routed = 60 * 384 * 3 * 7168 * 2048  # 61 layers, the first dense
    assert routed == pytest.approx(1.0147e12, rel=1e-4)
    assert routed * FORMATS["int4"].plain == pytest.approx(507e9, rel=1e-3)
    for model in ("kimi-k2.5-nvfp4", "kimi-k2.6"):
        lines = ask("explain", model, op="weights", weights=weights, **place)["lines"][-1]["inputs"]
        held = experts(lines)
        assert held == pytest.approx(routed / 8 * FORMATS["int4"].size, rel=1e-12)
        assert held * FORMATS["int4"].plain / FORMATS["int4"].size == pytest.approx(63.4e9, rel=1e-3)
        alone = ask("explain", model, op="weights", weights=weights, **{**place, "ep": 1, "tp": 1, "attention_dp": 1})
        everything = alone["lines"][-1]["inputs"]
        assert experts(everything) == pytest.approx(8 * held, rel=1e-12)
        for name, size in lines.items():  # attention groups hold everything else whole; dense networks spread over none
            if not name.startswith("experts") and name != "norm":
                assert size == pytest.approx(everything[name], rel=1e-12), name


@pytest.mark.parametrize(
    "config, params",
    [
        ("baichuan2-7b", 7_505_973_248),
        ("OrionStarAI__Orion-14B-Chat", 14_498_703_360),
        ("xai-org__grok-1.RECON", 315.7e9),
    ],
)
def test_b55_untied_heads_wide_networks_and_experts_are_all_weights(config: str, params: float):
    """A shipped table: 5.55e9 for Baichuan2-7B, 10.9e9 for Orion-14B, 36.2e9 for Grok-1."""
    found = inspect(config if config == "baichuan2-7b" else str(HERE / f"{config}.json"), weights="bf16")
    assert found["params"] == pytest.approx(params, rel=0 if isinstance(params, int) else 2e-4)
    assert found["weight_bytes"] == 2 * found["params"]


# ------------------------------------------------------------------------------------------------ cache


@pytest.mark.parametrize("kv", ["bf16", "fp16", "fp8", "q8_0", "q4_0", "int4"])
def test_b09_b29_hybrid_layers_count_for_every_cache_format(kv: str):
    """llmfit #951, omlx #2725: all 64 layers counted for one format; 16 of 64 cache, 65,536 B a token in 16 bit."""
    found = inspect("qwen3.5-27b", kv=kv, context=10_000)
    assert found["kv_bytes_per_token"] == pytest.approx(65_536 * FORMATS[kv].size / 2, rel=1e-12)
    if FORMATS[kv].size == 2.0:
        assert inspect("qwen3.5-27b", kv=kv, context=64)["kv_bytes"] == 4 * MIB
        assert found["state_bytes_per_sequence"] / 2 == pytest.approx(39.7e6, rel=1e-3)  # B05: constant elements


def test_b13_the_architecture_s_cache_and_the_allocator_s():
    """alvarobartt/hf-mem #70: 6.09 or 12.00 GiB for gpt-oss-20b; both are right, of different things, and both are said."""
    found = inspect("gpt-oss-20b", context=8192, batch=32, kv="bf16")
    assert found["kv_bytes"] == 204_472_320 * 32
    assert found["kv_bytes"] / GIB == pytest.approx(6.094, abs=5e-4)
    assert found["kv_bytes_one_page_size"] == 12 * GIB == 49_152 * 8192 * 32


def test_b15_the_marginal_and_the_average_rate_agree_with_the_total():
    """configiq #112: 880 KiB a token beside 972,134 tokens in 74.95 GiB; 880 KiB up to 1,024 tokens, 80 KiB beyond."""
    early, late = (inspect("gemma-4-31b-nvfp4", kv="bf16", context=context) for context in (1024, 1025))
    assert early["kv_bytes_per_token"] == 880 * 1024
    assert late["kv_bytes_per_token"] == 80 * 1024
    whole = inspect("gemma-4-31b-nvfp4", kv="bf16", context=LONG)
    assert whole["kv_bytes_per_token"] == 80 * 1024
    assert whole["kv_bytes"] == 1024 * 880 * 1024 + (LONG - 1024) * 80 * 1024
    assert whole["kv_bytes"] / GIB == pytest.approx(10.78, abs=0.005)
    assert whole["kv_bytes"] / LONG / 1024 == pytest.approx(86.3, abs=0.06)


def test_b15_the_cache_is_narrow_only_where_the_config_says_so():
    """configiq #112: the NVFP4 row was halved because the weights are narrow; only a cache scheme in the file does that."""
    config = catalog_config("gemma-4-31b-nvfp4")
    assert config["quantization_config"]["kv_cache_scheme"]
    assert inspect(config)["precision"]["kv"] == "fp8"
    config["quantization_config"] = {**config["quantization_config"], "kv_cache_scheme": None}
    found = inspect(config)
    assert found["precision"]["kv"] == "bf16"
    assert found["precision"]["ffn"] == "nvfp4"


def test_b17_latent_and_index_keys():
    """NVIDIA/TensorRT-LLM #16707: heads' formula 25× too large; (512 + 64 + 128) × 61 × 2 with index keys, 70,272 without."""
    assert inspect("deepseek-v3.2", kv="bf16", context=10_000)["kv_bytes_per_token"] == 85_888
    assert inspect("deepseek-v3", kv="bf16", context=10_000)["kv_bytes_per_token"] == 70_272
    assert inspect("deepseek-v3", kv="bf16", context=LONG)["kv_bytes"] / GIB == pytest.approx(8.58, abs=0.005)  # B04
    heads = 2 * 128 * 128 * 61 * 2  # what an ordinary cache of its 128 heads would take
    assert heads / inspect("deepseek-v3.2", kv="bf16")["kv_bytes_per_token"] > 20


def test_b19_only_layers_that_choose_cache_index_keys():
    """sglang #30531, LMCache #5002: 21 of GLM-5.2's 78 layers own an indexer: 47,700 B a token in fp8, 95,232 in bf16."""
    model = report_config("glm-5.2")
    assert inspect(model, kv="fp8", context=LONG)["kv_bytes_per_token"] == 78 * 576 + 21 * 132 == 47_700
    assert inspect(model, kv="bf16", context=LONG)["kv_bytes_per_token"] == 95_232
    everywhere = json.loads(Path(model).read_text(encoding="utf-8"))
    everywhere["indexer_types"] = ["full"] * 78
    assert inspect(everywhere, kv="fp8", context=LONG)["kv_bytes_per_token"] == 55_224
    del everywhere["indexer_types"]
    assert inspect(everywhere, kv="fp8", context=LONG)["kv_bytes_per_token"] == 55_224
    for found in (inspect(model, kv=kv, context=LONG) for kv in ("fp8", "bf16")):
        assert found["kv_bytes_one_page_size"] == found["kv_bytes"]  # no windows: both are the same


def test_b21_windows_are_not_counted_whole():
    """gpustack #2101: 139 GB for gemma-3-27b at 128,000 tokens; the cache is 10.17 GiB, with keys in q8_0 about 7.8 GiB."""
    plain, narrow = (inspect("gemma-3-27b", kv=kv, context=128_000)["kv_bytes"] for kv in ("bf16", "q8_0"))
    assert plain == 10 * 8192 * 128_000 + 52 * 8192 * 1024
    assert plain / GIB == pytest.approx(10.17, abs=0.005)
    keys_only = (plain + narrow) / 2  # half of the cache are keys
    assert keys_only / GIB == pytest.approx(7.8, abs=0.05)
    weights = {**dict.fromkeys(("attention", "ffn"), "q4_0"), "embedding": "fp16"}  # the file's table is 16 bit
    fit = ask("fit", "gemma-3-27b", on="l40s", weights=weights, kv="bf16", prompt=127_000, output=1000)
    assert fit["memory"]["kv"] == plain
    assert fit["memory"]["weights"] == pytest.approx(16.5e9, rel=0.05)
    assert fit["fits"]
    assert 25e9 <= fit["memory"]["weights"] + keys_only <= 28e9


def test_b25_full_and_windowed_layers_are_two_pools():
    """ollama #17037: 3.0 GB for gemma3:4b at 128K, because one pool overwrote the other; 2,560 MiB of full layers + windows."""
    found = inspect(report_config("gemma-3-4b"), kv="fp16", context=LONG)
    rates = {block["count"]: block["kv_bytes_per_token"] for block in found["blocks"]}
    assert rates == {29: 0.0, 5: 5 * 4096}
    full, windows = 5 * 4096 * LONG, 29 * 4096 * 1024
    assert full == 2560 * MIB
    assert found["kv_bytes"] == full + windows
    # The report's 174 MiB pad each window by a batch of 512: the allocator's figure, between the two that are given.
    assert windows < 174 * MIB == 29 * 4096 * (1024 + 512)
    assert found["kv_bytes"] < full + 174 * MIB < found["kv_bytes_one_page_size"]


def test_b27_the_cache_s_format_is_counted_and_attention_needs_no_square():
    """ollama #10128: 52 GB for Qwen2.5-7B-1M; 14.0 GiB of cache in 16 bit, 7.44 GiB in q8_0, about 12 GiB in all."""
    config = {**catalog_config("qwen2.5-7b"), "max_position_embeddings": 1_010_000}
    sizes = [inspect(config, kv=kv, context=262_144)["kv_bytes"] for kv in ("fp16", "q8_0")]
    assert sizes[0] == 14 * GIB
    assert sizes[1] == 14 * GIB * 34 / 64
    assert sizes[1] / GIB == pytest.approx(7.44, abs=0.005)
    weights = {
        **dict.fromkeys(("attention", "ffn", "embedding"), "q4_k"),
        "head": "q6_k",
    }  # Q4_K_M: and some layers in q6_k
    device = {"device": {"memory": "24 GB", "memory_bandwidth": "900 GB/s", "flop_rate": {"fp16": "70 TFLOP/s"}}}
    fit = ask("fit", config, on=device, weights=weights, kv="q8_0", prompt=262_000, output=144)
    assert fit["fits"]
    assert fit["memory"]["weights"] == pytest.approx(4.7e9, rel=0.07)
    assert 11.2 <= (fit["memory"]["weights"] + fit["memory"]["kv"]) / GIB <= 12
    assert fit["memory"]["workspace"] < 2 * GIB


def test_b31_eight_heads_not_sixteen():
    """huggingface/blog #2345: 123.05 GB for Llama-3.1-405B at 128k; right is 67,645,734,912 B = 63.0 GiB."""
    found = inspect("llama-3.1-405b", kv="bf16", context=LONG)
    assert found["kv_bytes"] == 67_645_734_912 == 63 * GIB
    assert found["kv_bytes_per_token"] == 516_096


def test_b37_mixed_layers_count_what_they_are():
    """inference-sim #1559 and others: 90,112 B a token on all 88 layers of Nemotron-3 Super; 8 layers cache: 8,192 B."""
    found = inspect(report_config("nemotron-3-super"), kv="bf16", context=LONG)
    assert found["kv_bytes_per_token"] == 8192
    assert found["kv_bytes"] == GIB
    assert found["state_bytes_per_sequence"] / 2 == pytest.approx(43.6e6, rel=1e-3)
    assert found["weight_bytes"] == 2 * 120_668_687_360
    assert sorted(block["count"] for block in found["blocks"]) == [8, 40, 40]
    fit = ask("fit", report_config("nemotron-3-super"), on="hgx-h200", tp=2, prompt=LONG - 1, output=1)
    assert fit["memory"]["kv"] - fit["memory"]["state"] == GIB / 2
    config = json.loads(Path(report_config("nemotron-3-super")).read_text(encoding="utf-8"))
    del config["num_hidden_layers"]  # absent in the largest member of the family
    assert inspect(config)["weight_bytes"] == found["weight_bytes"]


def test_b47_capacity_in_tokens_of_a_hybrid():
    """vllm #40691, #40384, #51041: 290,864 tokens beside 33.04× of 32,768; those are 1,082,655 tokens at 20,480 B: 20.6 GiB."""
    found = inspect("qwen3.5-35b-a3b", kv="bf16", context=32_768)
    assert found["kv_bytes_per_token"] == 20_480
    tokens = 33.04 * 32_768
    assert tokens * found["kv_bytes_per_token"] / GIB == pytest.approx(20.6, abs=0.1)
    fit = ask("fit", "qwen3.5-35b-a3b", on="h100-sxm", prompt=32_000, output=768, batch=1, weights="fp8")
    memory = fit["memory"]
    room = memory["capacity"] - memory["weights"] - memory["workspace"] - memory["reserve"]
    per_sequence = 32_768 * 20_480 + found["state_bytes_per_sequence"]
    assert fit["kv_tokens"] == pytest.approx(room / per_sequence * 32_768, rel=1e-9)
    assert fit["max_batch"] == pytest.approx(fit["kv_tokens"] / 32_768, rel=0.03)  # workspace grows with the batch


def test_b51_layers_that_share_keys_allocate_none():
    """unsloth #5225: 43 % too much for gemma-3n-E4B: 20 of 35 layers allocate; gemma-4-E2B: 15 of 35, 0.756 GiB at 131,072."""
    config = json.loads((HERE / "google__gemma-3n-E2B-it.RECON.json").read_text(encoding="utf-8"))
    text = config["text_config"]
    kinds = ["full_attention" if (i + 1) % 5 == 0 else "sliding_attention" for i in range(35)]
    text.update(num_hidden_layers=35, num_kv_shared_layers=15, layer_types=kinds, intermediate_size=[16_384] * 35)
    found = inspect(config, kv="bf16", context=100)
    assert sum(b["count"] for b in found["blocks"] if b["kv_bytes_per_token"]) == 20
    assert found["kv_bytes"] == 20 * 2 * 2 * 256 * 2 * 100
    small = inspect(report_config("gemma-4-e2b"), kv="bf16", context=LONG)
    assert small["kv_bytes"] / GIB == pytest.approx(0.756, abs=5e-4)
    early = inspect(report_config("gemma-4-e2b"), kv="bf16", context=100)
    assert sum(b["count"] for b in early["blocks"] if b["kv_bytes_per_token"]) == 15


# ------------------------------------------------------------------------------------------------ sharding


@pytest.mark.parametrize("model, heads", [("llama-3.1-8b", 8), ("llama-3.1-70b", 8), ("qwen3-32b", 8), ("yi-34b", 8)])
@pytest.mark.parametrize("tp", [2, 4, 8])
def test_b33_capacity_is_room_per_device_over_bytes_per_device(model: str, heads: int, tp: int):
    """inference-sim #1545: aggregate memory over sharded bytes is right at TP1 only; per device over per device is right."""
    per_token = inspect(model, kv="bf16")["kv_bytes_per_token"]
    fit = ask("fit", model, on="dgx-b200", kv="bf16", tp=tp, prompt=1000, output=24)
    memory = fit["memory"]
    room = memory["capacity"] - memory["weights"] - memory["workspace"] - memory["reserve"]
    assert memory["kv"] == pytest.approx(per_token / min(tp, heads) * 1024, rel=1e-12)
    assert fit["kv_tokens"] == pytest.approx(room / (per_token / min(tp, heads)), rel=1e-9)
    assert fit["kv_tokens"] == pytest.approx(room * tp / per_token, rel=1e-9)  # aggregate over aggregate is the same
    single = ask("fit", model, on="dgx-b200", kv="bf16", tp=1, prompt=1000, output=24)
    assert fit["kv_tokens"] > tp * single["kv_tokens"] * 0.99  # weights spread too, so more than tp times the room


def test_b33_beyond_the_heads_more_devices_hold_no_more_tokens_each():
    """inference-sim #1545 at TP 16 with 8 KV heads: each is held twice, so bytes per device stop falling."""
    eight, sixteen = (
        ask("fit", "llama-3.1-70b", on="32x dgx-h100", tp=tp, prompt=1000, output=24, kv="bf16") for tp in (8, 16)
    )
    assert eight["memory"]["kv"] == sixteen["memory"]["kv"]


@pytest.mark.parametrize("model, tp, copies", [("qwen3-vl-30b-a3b", 8, 2), ("llama-3-8b", 32, 4), ("llama-3-8b", 8, 1)])
def test_b35_more_ranks_than_heads_replicate_and_say_so(model: str, tp: int, copies: int):
    """transformers #48307, tenstorrent/vllm #50: a crash, or 8/32 heads a device; whole heads, ×2 at TP8, ×4 at TP32."""
    place = {"on": "64x dgx-h100", "prompt": 900, "output": 124, "kv": "bf16"}
    alone, spread = (ask("estimate", model, tp=degree, **place) for degree in (1, tp))
    assert spread["memory"]["kv"] * tp == pytest.approx(alone["memory"]["kv"] * copies, rel=1e-12)
    said = [note for note in spread["notes"] if "KV heads" in note]
    assert len(said) == (copies > 1)
    assert all(f"held {copies} times" in note and f"{copies}×" in note for note in said)
    if copies > 1:  # or their width is split, on request, and nothing is held twice
        split = ask("estimate", model, tp=tp, kv_shard="split", **place)
        assert split["memory"]["kv"] * tp == pytest.approx(alone["memory"]["kv"], rel=1e-12)
        assert any("split over" in note for note in split["notes"])


def test_b35_uneven_heads_are_refused_before_anything_is_priced():
    """transformers #48307: must replicate, or refuse before starting."""
    with pytest.raises(
        InputError, match=r"^layout: .*tp=6 does not divide the 32 heads.*tp=6 does not divide the 4 KV heads"
    ):
        ask("estimate", "qwen3-vl-30b-a3b", on="64x dgx-h100", tp=6)


def test_b45_capacity_with_attention_in_two_groups():
    """vllm #45178: 245,840 tokens a group for MiniMax-M2.5 NVFP4 on two B200; 769,888 with the false reserve off.

    Experts spread over both devices; an fp8 cache, 92 % of the memory for the engine (its default then). Within a tenth.
    """
    weights = {"attention": "bf16", "expert": "nvfp4"}
    place = {
        "on": "dgx-b200",
        "attention_dp": 2,
        "ep": 2,
        "batch": 2,
        "prompt": 30_000,
        "output": 2768,
        "reserve": "8%",
    }
    fit = ask("fit", "minimax-m2.5", weights=weights, kv="fp8", **place)
    assert fit["kv_tokens"] / 2 == pytest.approx(769_888, rel=0.1)


# ------------------------------------------------------------------------------------------------ rates and links


def rates(name: str) -> dict[str, float]:
    rows = api.answer({"kind": "catalog", "what": "devices"})["rows"]
    return next(row["flop_rate"] for row in rows if row["name"] == name)


def test_b41_peaks_are_dense():
    """LLM_Sizing_Guide #3, FlashMLA #75, tritonbench #78: 1,513 and 1,979 are 2:4-sparse; 756.5, 989.5 and 1,979 (fp8) dense."""
    assert rates("h100-pcie")["bf16"] == pytest.approx(756.5e12, rel=1e-3)
    for name in ("h100-sxm", "h800-sxm", "h200-sxm"):
        assert rates(name)["bf16"] == pytest.approx(989.5e12, rel=1e-3)
        assert rates(name)["fp8"] == pytest.approx(1979e12, rel=1e-3)
    for row in api.answer({"kind": "catalog", "what": "devices"})[
        "rows"
    ]:  # a sparse fp8 beside a dense bf16 would be 4×
        table = row["flop_rate"]
        if "fp8" in table and "bf16" in table:
            assert table["fp8"] <= 2.05 * table["bf16"], row["name"]


def test_b43_links_are_one_direction_per_device():
    """AIInfraGuide #44, hwloc #574, DeepEP #16: "14×" of NVLink over PCIe; 450 against ~64 GB/s is 7×; H800 200, H20 450."""
    assert catalog.system("dgx-h100").links[0].bandwidth == 450e9
    assert catalog.system("hgx-h800").links[0].bandwidth == 200e9
    assert catalog.system("hgx-h20").links[0].bandwidth == 450e9
    assert catalog.link_table("pcie5-x16")
    placed = {"phase": "prefill", "context": 8192, "batch": 8, "tp": 2, "switches": {"link_latency": False}}
    times = []
    for link in ("nvlink4", "pcie5-x16"):
        system = {"device": "h100-pcie", "links": [{"link": link, "size": 2}], "devices": 2}
        ops = ask("step", "llama-3.1-8b", on=system, **placed)["ops"]
        times.append(math.fsum(op["comm_time"] for op in ops))
    assert times[1] / times[0] == pytest.approx(7.03, rel=0.02)


def test_b11_active_bytes_are_a_ceiling_not_the_prediction():
    """llmfit #449, #474: Qwen3.5-35B-A3B in Q2_K_XL on 512 GB/s: a ceiling of ~470 tok/s; 77.6 measured is possible, not more.

    2.95e9 active weights × ~0.37 B = 1.1 GB a token; the fast end of the roofline is that ceiling, estimates lie below it.
    """
    weights = {**dict.fromkeys(("attention", "ffn", "expert"), "q2_k"), "embedding": "q4_k", "head": "q3_k"}
    card = {
        "name": "rx-6900-xt",
        "device": {
            "memory": "16 GB", "memory_bandwidth": "512 GB/s", "flop_rate": {"fp16": "46 TFLOP/s", "fp32": "23 TFLOP/s"},
        },
    }  # fmt: skip
    found = ask("estimate", "qwen3.5-35b-a3b", on=card, weights=weights, prompt=64, output=64)
    peak = ask("estimate", "qwen3.5-35b-a3b", on=card, weights=weights, prompt=64, output=64, prices="roofline")
    ceiling = 1 / peak["low"]["tpot"]
    assert ceiling == pytest.approx(470, rel=0.1)
    assert found["tokens_per_second_per_user"] < peak["tokens_per_second_per_user"] < ceiling
    assert 1 / found["low"]["tpot"] < ceiling
    assert found["memory"]["weights"] > 10e9  # all experts are resident all the same
    active = inspect("qwen3.5-35b-a3b")["active_params_without_embedding"]
    assert active == pytest.approx(2.95e9, rel=0.002)
    assert ceiling > 77.6
    step = ask("step", "qwen3.5-35b-a3b", on=card, weights=weights, context=96)
    read = math.fsum(op["weight_bytes"] for op in step["ops"])
    assert read / active == pytest.approx(0.37, rel=0.05)


@pytest.mark.parametrize("tied", [True, False])
def test_b49_the_head_is_multiplied_tied_or_not(tied: bool):
    """trl #6708, torchtitan #3225: lookup 2Vh and head 0 when tied; lookup 0, head 2Vh = 525,336,576 FLOP a token always."""
    config = {**catalog_config("llama-3.2-1b"), "tie_word_embeddings": tied}
    for profile in ("operator", "sharded"):
        ops = {op["name"]: op for op in ask("step", config, on="h100-sxm", context=100, profile=profile)["ops"]}
        assert ops["lm_head"]["flop"] == 525_336_576
        assert ops["embedding"]["flop"] == 0
        assert ops["lm_head"]["weight_bytes"] == 128_256 * 2048 * 2
    params = inspect(config)["params"]
    assert params == 1_235_814_400 + (0 if tied else 128_256 * 2048)


# ------------------------------------------------------------------------------------------------ refusals


def test_b53_experts_have_the_width_their_config_gives():
    """aiconfigurator #1039, fak #1027: DeepSeek's 2,048 for MiniMax-M2, dense for qwen3_5_moe."""
    assert any("MoE 256 × 1,536, top 8" in block["ffn"] for block in inspect("minimax-m2.5")["blocks"])
    assert all(
        "MoE 256 × 512" in block["ffn"] and "shared 512" in block["ffn"]
        for block in inspect("qwen3.5-35b-a3b")["blocks"]
    )


@pytest.mark.parametrize(
    "model, key, gone",
    [
        ("minimax-m2.5", "intermediate_size", "intermediate_size"),
        ("minimax-m2.5", "num_experts_per_tok", "num_experts_per_tok"),
        ("qwen3-235b-a22b", "moe_intermediate_size", "moe_intermediate_size"),
        ("deepseek-v3", "moe_intermediate_size", "moe_intermediate_size"),
        ("llama-3.1-8b", "hidden_size", "hidden_size"),
        ("llama-3.1-8b", "num_attention_heads", "num_attention_heads"),
        ("llama-3.1-8b", "vocab_size", "vocab_size"),
        ("llama-3.1-8b", "num_hidden_layers", "num_hidden_layers"),
        ("mixtral-8x7b", "intermediate_size", "intermediate_size"),
    ],
)
@pytest.mark.parametrize("way", ["missing", "null"])
def test_b53_a_missing_size_is_refused_by_name(model: str, key: str, gone: str, way: str):
    """aiconfigurator #1039, dynamo #8273: a fallback to another model's shape, a TypeError on null; right is a refusal."""
    config = catalog_config(model)
    if way == "null":
        config[gone] = None
    else:
        del config[gone]
    for kind, more in (("inspect", {}), ("estimate", {"on": "h100-sxm"})):
        with pytest.raises(InputError, match=key):
            ask(kind, config, **more)
