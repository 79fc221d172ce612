"""What the reference code of each model type fixes and its `config.json` does not say.

One row a model type: biases, norms, query/key norms, gating, tying, windows. Shapes (attention or latent attention, dense
or experts, recurrent or not) are not here: they follow from the keys a config has.
"""

from __future__ import annotations

from msgspec.structs import replace

from rooflab.hf.facts import Facts

LLAMA = Facts(qkv_bias="attention_bias", out_bias="attention_bias", ffn_bias="mlp_bias", window="none")
BIASED = Facts(qkv_bias="attention_bias", out_bias="attention_bias", window="none")
PLAIN = Facts(window="none")
QWEN2 = Facts(qkv_bias=True, window="qwen")
QWEN3 = Facts(qkv_bias="attention_bias", out_bias="attention_bias", qk_norm="head", window="qwen")
QWEN3_NEXT = Facts(
    qkv_bias="attention_bias",
    out_bias="attention_bias",
    qk_norm="head",
    gate="attn_output_gate",
    gate_bias=True,
    shared_gate=True,
    window="none",
    mtp="plain",
    defaults={"attn_output_gate": True, "full_attention_interval": 4},
)
CLASSIC = Facts(
    norm="layer", qkv_bias=True, out_bias=True, ffn_bias=True, gated=False, tied=True, window="none", ffn_ratio=4
)
GPTJ = Facts(
    norm="layer", norms=1, ffn_bias=True, head_bias=True, gated=False, parallel=True, window="none", ffn_ratio=4
)
GEMMA = Facts(qkv_bias="attention_bias", out_bias="attention_bias", tied=True, window="none")
GEMMA3 = Facts(
    qkv_bias="attention_bias",
    out_bias="attention_bias",
    norms=4,
    qk_norm="head",
    tied=True,
    window="pattern",
    defaults={"sliding_window_pattern": 6},
)
DEEPSEEK = Facts(qkv_bias="attention_bias", out_bias="attention_bias", ffn_bias="mlp_bias", window="none", mtp="copies")
GLM4_MOE = Facts(
    qkv_bias="attention_bias", qk_norm="head", qk_norm_key="use_qk_norm", window="none", mtp="copies_biases"
)
COHERE = Facts(
    norm="layer_no_bias",
    norms=1,
    qkv_bias="attention_bias",
    out_bias="attention_bias",
    qk_norm="width",
    qk_norm_key="use_qk_norm",
    parallel=True,
    tied=True,
    window="none",
)
OLMO2 = Facts(qkv_bias="attention_bias", out_bias="attention_bias", qk_norm="width", window="none")
GRANITE_MOE = replace(BIASED, expert_width=("intermediate_size",))
HUNYUAN = Facts(
    qkv_bias="attention_bias",
    out_bias="attention_bias",
    qk_norm="head",
    window="none",
    expert_width=("moe_intermediate_size", "intermediate_size"),
)
ERNIE = Facts(qkv_bias="use_bias", out_bias="use_bias", ffn_bias="use_bias", tied=True, window="none")
EXAONE4 = Facts(qk_norm="head", window="pattern")
INKLING2 = Facts(gate=True, embedding_norm=True, window="none", build="inkling2")
BAMBA = Facts(qkv_bias="attention_bias", out_bias="attention_bias", ffn_bias="mlp_bias", window="none")

FAMILIES: dict[str, Facts] = {
    # Llama and its likenesses
    "llama": LLAMA,
    "smollm3": replace(LLAMA, tied=True, window="qwen"),
    "arcee": replace(LLAMA, gated=False),
    "cwm": LLAMA,
    "mistral": Facts(),
    "ministral": Facts(),
    "ministral3": Facts(),
    "mixtral": Facts(expert_width=("intermediate_size",), expert_path="block_sparse_moe.experts"),
    "seed_oss": replace(LLAMA, out_bias="attention_out_bias"),
    "phi3": Facts(),
    "granite": LLAMA,
    "helium": replace(LLAMA, out_bias=False),
    "exaone": LLAMA,
    "hyperclovax": replace(LLAMA, build="hyperclovax"),
    "internlm3": LLAMA,
    "iquestcoder": LLAMA,
    "baichuan": PLAIN,
    "internlm2": Facts(qkv_bias="bias", out_bias="bias", window="none"),
    "internlm": Facts(qkv_bias="bias", out_bias="bias", window="none", defaults={"bias": True}),
    "minicpm": replace(BIASED, tied=True),
    "orion": Facts(norm="layer", qkv_bias="attention_bias", out_bias="attention_bias", window="none"),
    "xverse": PLAIN,
    "aquila": PLAIN,
    "skywork": PLAIN,
    "yi": PLAIN,
    "solar": LLAMA,
    # Qwen
    "qwen": Facts(qkv_bias=True, window="none", fused_width=True, build="qwen"),
    "qwen2": QWEN2,
    "qwen2_moe": replace(QWEN2, qkv_bias="qkv_bias", shared_gate=True, defaults={"qkv_bias": True}),
    "qwen3": QWEN3,
    "qwen3_moe": QWEN3,
    "qwen3_next": replace(QWEN3_NEXT, mtp_layers=1),
    "qwen3_5_text": QWEN3_NEXT,
    # Gemma
    "gemma": GEMMA,
    "gemma2": replace(GEMMA, norms=4, window="even"),
    "gemma3_text": GEMMA3,
    "gemma3n_text": replace(GEMMA3, build="gemma3n"),
    "gemma4_text": replace(GEMMA3, build="gemma4", expert_path="experts", shared_path=""),
    # GPT-2 and its time
    "gpt2": replace(CLASSIC, positions="n_positions"),
    "gpt_bigcode": replace(CLASSIC, positions="n_positions", defaults={"multi_query": True}),
    "gpt_neox": replace(
        CLASSIC,
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        tied=False,
        parallel="use_parallel_residual",
        defaults={"attention_bias": True, "use_parallel_residual": True},
    ),
    "gptj": GPTJ,
    "codegen": GPTJ,
    "bloom": replace(CLASSIC, embedding_norm=True),
    "opt": replace(
        CLASSIC,
        qkv_bias="enable_bias",
        out_bias="enable_bias",
        ffn_bias="enable_bias",
        build="opt",
        positions="max_position_embeddings",
        positions_offset=2,
        defaults={"enable_bias": True, "do_layer_norm_before": True},
    ),
    "mpt": Facts(norm="layer_no_bias", gated=False, tied=True, window="none", ffn_ratio=4, build="mpt"),
    "falcon": Facts(
        norm="layer",
        qkv_bias="bias",
        out_bias="bias",
        ffn_bias="bias",
        gated=False,
        tied=True,
        window="none",
        ffn_ratio=4,
        build="falcon",
    ),
    "phi": Facts(
        norm="layer",
        norms=1,
        qkv_bias=True,
        out_bias=True,
        ffn_bias=True,
        head_bias=True,
        gated=False,
        parallel=True,
        qk_norm="head_layer",
        qk_norm_key="qk_layernorm",
        window="none",
    ),
    "stablelm": Facts(
        norm="layer",
        qkv_bias="use_qkv_bias",
        qk_norm="width",
        qk_norm_key="qk_layernorm",
        parallel="use_parallel_residual",
        window="none",
        build="stablelm",
    ),
    "telechat": Facts(window="none", out_bias=True, down_bias=True),
    "chatglm": Facts(norm="rms", qkv_bias="add_qkv_bias", window="none", build="chatglm"),
    "phi3small": Facts(norm="layer", qkv_bias=True, out_bias=True, ffn_bias=True, tied=True, window="none"),
    "molmo": Facts(qkv_bias="qkv_bias", fused_width=True, window="none", build="molmo"),
    # OLMo, Cohere, GLM, Granite
    "olmo": replace(BIASED, norm="none"),
    "olmo2": OLMO2,
    "olmo3": replace(OLMO2, window="pattern", defaults={"sliding_window_pattern": 4}),
    "olmoe": replace(OLMO2, expert_width=("intermediate_size",)),
    "cohere": COHERE,
    "cohere2": replace(COHERE, qk_norm="", window="pattern", defaults={"sliding_window_pattern": 4}),
    "glm": Facts(qkv_bias="attention_bias", window="none"),
    "glm4": Facts(qkv_bias="attention_bias", norms=4, window="none"),
    "glm4v_text": Facts(qkv_bias="attention_bias", norms=4, window="none", defaults={"attention_bias": True}),
    "glm4_moe": GLM4_MOE,
    "granitemoe": GRANITE_MOE,
    "granitemoeshared": GRANITE_MOE,
    "granitemoehybrid": replace(GRANITE_MOE, build="granite_hybrid"),
    # Experts
    "deepseek": DEEPSEEK,
    "deepseek_v2": DEEPSEEK,
    "deepseek_v3": DEEPSEEK,
    "deepseek_v32": DEEPSEEK,
    "deepseek_v4": replace(
        DEEPSEEK, mtp="", build="deepseek_v4", mixer_path="attn", ffn_path="ffn", expert_path="ffn.experts"
    ),
    "mistral4": replace(DEEPSEEK, ffn_bias=False, mtp=""),
    "step3p5": replace(
        LLAMA,
        qk_norm="head",
        head_gate=True,
        head_gate_wide="gating",
        expert_path="moe",
        shared_path="",
        build="step3p5",
    ),
    "gpt_oss": Facts(
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        sinks=True,
        expert_width=("intermediate_size",),
        router_bias=True,
        expert_bias=True,
        window="even",
        defaults={"attention_bias": True},
    ),
    "phimoe": Facts(
        norm="layer",
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        head_bias="lm_head_bias",
        expert_width=("intermediate_size",),
    ),
    "minimax_m2": Facts(
        expert_width=("intermediate_size",),
        qk_norm="width",
        qk_norm_key="use_qk_norm",
        window="none",
        defaults={"use_qk_norm": True},
    ),
    "minimax_m3": Facts(
        qk_norm="head",
        gate="attention_output_gate",
        window="none",
        build="minimax_m3",
        expert_width=("moe_intermediate_size", "intermediate_size"),
        expert_path="block_sparse_moe.experts",
    ),
    "longcat_flash": replace(DEEPSEEK, ffn_bias=False, build="longcat", mtp=""),
    "jetmoe": Facts(window="none", build="jetmoe", tied=True, expert_width=("intermediate_size",)),
    "grok-1": Facts(
        norms=4, expert_width=("moe_intermediate_size", "intermediate_size"), window="none", tied=True, build="grok"
    ),
    "dbrx": Facts(norm="layer_no_bias", window="none", build="dbrx", expert_width=("ffn_hidden_size",)),
    "llama4_text": Facts(
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        window="chunked",
        expert_width=("intermediate_size",),
        build="llama4",
    ),
    "step3_text": Facts(window="none", build="step3"),
    "mllama_text_model": Facts(window="none", build="mllama"),
    # Linear and hybrid
    "kimi_linear": replace(DEEPSEEK, mtp=""),
    "nemotron_h": Facts(
        mtp="plain",
        mixer_path="mixer",
        linear_path="mixer",
        ffn_path="mixer",
        expert_path="mixer.experts",
        norms=1,
        gated=False,
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        ffn_bias="mlp_bias",
        window="none",
        build="nemotron_h",
    ),
    # Further likenesses of Llama
    "apertus": replace(BIASED, gated=False, qk_norm="head", layer_other=2),
    "bitnet": replace(BIASED, norms=3, ffn_norm=True),
    "gpt_neox_japanese": replace(CLASSIC, qkv_bias=False, out_bias=False, ffn_bias=False, build="gpt_neox_japanese"),
    "starcoder2": Facts(
        norm="layer", qkv_bias="use_bias", out_bias="use_bias", ffn_bias="use_bias", gated=False, tied=True
    ),
    "nemotron": replace(LLAMA, norm="layer", gated=False),
    "jais2": replace(LLAMA, norm="layer", gated=False, defaults={"attention_bias": True, "mlp_bias": True}),
    "nanochat": Facts(norm="none", gated=False, qkv_bias="attention_bias", out_bias="attention_bias", window="none"),
    "diffllama": replace(BIASED, build="diffllama"),
    "doge": replace(LLAMA, qk_norm="head", build="doge"),
    "vaultgemma": replace(GEMMA, window="even"),
    "persimmon": replace(CLASSIC, tied=False, qk_norm="head_layer", qk_norm_key="qk_layernorm", ffn_ratio=0),
    "biogpt": replace(CLASSIC, positions="max_position_embeddings", positions_offset=2, ffn_ratio=0),
    "xglm": replace(CLASSIC, ffn_ratio=0),
    "gpt_neo": replace(CLASSIC, qkv_bias=False, positions="max_position_embeddings"),
    "openai-gpt": replace(CLASSIC, positions="n_positions", final_norm=False),
    "ernie4_5": ERNIE,
    "exaone4": EXAONE4,
    "hunyuan_v1_dense": replace(HUNYUAN, ffn_bias="mlp_bias"),
    "minicpm3": replace(DEEPSEEK, mtp=""),
    "youtu": replace(DEEPSEEK, mtp="", ffn_bias=False),
    # Further experts
    "afmoe": Facts(
        norms=4,
        qkv_bias="attention_bias",
        out_bias="attention_bias",
        qk_norm="head",
        gate=True,
        router_parameters=1,
        window="pattern",
    ),
    "aria_text": replace(LLAMA, expert_width=("intermediate_size",)),
    "axk1": replace(DEEPSEEK, ffn_bias=False, sparse_norm=True, defaults={"first_k_dense_replace": 1}),
    "cohere_compass_text": replace(COHERE, qk_norm="", window="pattern"),
    "cohere2_moe": replace(
        COHERE,
        qk_norm="",
        window="pattern",
        defaults={"sliding_window_pattern": 4},
        expert_width=("intermediate_size",),
        build="cohere2_moe",
    ),
    "dots1": replace(QWEN3, mtp="copies"),
    "ernie4_5_moe": replace(ERNIE, head_bias="use_bias", router_parameters=1),
    "exaone_moe": replace(EXAONE4, mtp="plain"),
    "flex_olmo": replace(OLMO2, expert_width=("intermediate_size",)),
    "flint": replace(BIASED, qk_norm="head", sinks=True),
    "glm4_moe_lite": replace(DEEPSEEK, ffn_bias=False, defaults={"first_k_dense_replace": 1}),
    "glm_moe_dsa": replace(DEEPSEEK, ffn_bias=False),
    "granite_swa": replace(LLAMA, sinks=True),
    "granitemoe_swa": replace(GRANITE_MOE, sinks=True),
    "hunyuan_v1_moe": replace(HUNYUAN, build="hunyuan_moe"),
    "hy_v3": replace(LLAMA, qk_norm="head", mtp="copies", defaults={"first_k_dense_replace": 1}),
    "kolibri1": replace(BIASED, norms=4, qk_norm="head"),
    "laguna": replace(
        BIASED,
        qk_norm="head",
        head_gate=True,
        head_gate_wide="gating",
        router_parameters=1,
        defaults={"first_k_dense_replace": 1},
    ),
    "mellum": replace(BIASED, qk_norm="head"),
    "mimo_v2_flash": Facts(qkv_bias="attention_bias", build="mimo_v2"),
    "sarvam_mla": replace(DEEPSEEK, ffn_bias=False),
    "sarvam_moe": GLM4_MOE,
    "solar_open": GLM4_MOE,
    "dots3_note_text": replace(DEEPSEEK, ffn_bias=False, head_gate=True, rope_norm=True, mtp=""),
    "hy_v4": replace(
        DEEPSEEK,
        gate=True,
        sinks=True,
        mtp="",
        build="streams",
        defaults={"first_k_dense_replace": 1, "index_topk_freq": 4},
    ),
    "axk2": replace(DEEPSEEK, ffn_bias=False, mtp="", build="axk2", defaults={"first_k_dense_replace": 1}),
    "mistral_large4_text": replace(DEEPSEEK, ffn_bias=False, mtp="", build="mistral_large4"),
    "muse_glimmer_text": replace(BIASED, norms=4, gate=True),
    "muse_spark_text": replace(BIASED, norms=3, gate=True, build="muse_spark"),
    "molmo2_text": replace(QWEN3, out_bias=False, build="molmo2"),
    "voxtral_realtime_text": Facts(build="voxtral_realtime"),
    "zaya": replace(BIASED, head_bias="lm_head_bias", tied=True, build="zaya"),
    "inkling_text": replace(PLAIN, qk_norm="head", embedding_norm=True, build="inkling"),
    "inkling2_text": INKLING2,
    "inkling2_loop_text": replace(INKLING2, build="inkling2_loop"),
    "cosmos3_edge_text": replace(LLAMA, gated=False),
    "ernie4_5_vl_moe_text": replace(ERNIE, router_parameters=1, build="two_kinds_of_experts"),
    "arctic": replace(PLAIN, norms=3, expert_width=("intermediate_size",), build="arctic", shared_path="residual_mlp"),
    "bailing_moe": Facts(
        qkv_bias="use_qkv_bias",
        out_bias="use_bias",
        ffn_bias="use_bias",
        qk_norm="head",
        qk_norm_key="use_qk_norm",
        window="none",
        mtp="copies",
    ),
    "bailing_moe_linear": Facts(
        qkv_bias="use_qkv_bias",
        out_bias="use_bias",
        qk_norm="head",
        qk_norm_key="use_qk_norm",
        window="none",
    ),
    "hunyuan": replace(HUNYUAN, qk_norm_key="use_qk_norm", build="hunyuan_moe"),
    "glm_ocr_text": Facts(norms=4, window="none"),
    # Remote code
    "deci": replace(LLAMA, build="blockwise"),
    "nemotron-nas": replace(LLAMA, build="blockwise"),
    "openelm": Facts(qk_norm="head", window="none", build="openelm"),
    "llada": Facts(
        qkv_bias="include_qkv_bias", out_bias="include_bias", ffn_bias="include_bias", window="none", build="molmo"
    ),
    "jais": replace(CLASSIC, gated=True),
    "mimo": replace(QWEN2, mtp="plain"),
    "hf_olmo": Facts(
        norm="none", qkv_bias="include_bias", out_bias="include_bias", fused_width=True, window="none", build="molmo"
    ),
    "minicpmv": Facts(window="none", build="minicpmv"),
    # Layers passed more than once
    "dory": replace(LLAMA, norm="none", gate=True, window="pattern", build="dory"),
    "hrm_text": replace(LLAMA, norm="none", gate=True, gate_bias=True, build="hrm_text"),
    # Further linear and hybrid
    "glm5_next_text": replace(
        DEEPSEEK, ffn_bias=False, mtp="", build="glm5_next", defaults={"first_k_dense_replace": 3}
    ),
    "qwen4_exp_text": replace(QWEN3_NEXT, norms=0, final_norm=False, mtp="", build="qwen4_exp"),
    "bailing_hybrid": replace(DEEPSEEK, ffn_bias=False, head_gate=True),
    "bamba": BAMBA,
    "jamba": replace(PLAIN, expert_width=("intermediate_size",)),
    "falcon_h1": replace(BAMBA, build="falcon_h1"),
    "falcon_mamba": replace(PLAIN, norms=1, tied=True, build="mamba"),
    "mamba": replace(PLAIN, norms=1, tied=True, build="mamba"),
    "mamba_ssm": replace(PLAIN, norms=1, tied=True, build="mamba_ssm"),
    "mamba2": replace(PLAIN, norms=1, build="mamba"),
    "lara_mini": replace(BIASED, qk_norm="head"),
    "lfm2": replace(PLAIN, qk_norm="head", tied=True, build="lfm2"),
    "lfm2_moe": replace(PLAIN, qk_norm="head", tied=True, build="lfm2"),
    "lfm3": replace(BIASED, norms=4, qk_norm="head", head_gate="use_attention_gate", tied=True, build="lfm2"),
    "minimax": replace(PLAIN, expert_width=("intermediate_size",), kinds="full_attention linear_attention"),
    "zamba": replace(PLAIN, tied=True, build="zamba"),
    "zamba2": replace(PLAIN, tied=True, build="zamba"),
    "rwkv": Facts(norm="layer", gated=False, window="none", build="rwkv"),
    "xlstm": replace(PLAIN, build="xlstm"),
    "olmo_hybrid": replace(OLMO2, norms=2, kinds="linear_attention linear_attention linear_attention full_attention"),
    "recurrent_gemma": replace(
        PLAIN, out_bias=True, qkv_bias="attention_bias", ffn_bias=True, fused_width=True, tied=True, window="key"
    ),
}

SAME_AS: dict[str, str] = {
    "apertus": "apertus1p5_text",
    "bailing_hybrid": "bailing_moe_v2_5",
    "bailing_moe": "bailing_moe_v2 llada2_moe",
    "bailing_moe_linear": "bailing_moe_linear_v2",
    "deepseek_v2": "deepseek_ocr2_text deepseek_vl_v2 unlimited_ocr_text",
    "deepseek_v3": "kimi_k2 kimi_k25 kimi_vl",
    "glm5_next_text": "glm5_next",
    "inkling_text": "inkling_mm_model inkling",
    "inkling2_text": "inkling2",
    "inkling2_loop_text": "inkling2_loop",
    "mistral_large4_text": "mistral_large4",
    "qwen4_exp_text": "qwen4_exp",
    "molmo2_text": "molmo2",
    "muse_glimmer_text": "muse_glimmer",
    "muse_spark_text": "muse_spark",
    "voxtral_realtime_text": "voxtral_realtime",
    "cohere_compass_text": "cohere_compass",
    "cosmos3_edge_text": "cosmos3_edge",
    "dots3_note_text": "dots3_note",
    "ernie4_5": "paddleocr_vl paddleocr_vl_text",
    "exaone4": "exaone4_5_text",
    "falcon": "refinedweb refinedwebmodel",
    "gemma3_text": "gemma3",
    "gemma3n_text": "gemma3n",
    "gemma4_text": "gemma4 gemma4_unified gemma4_unified_text",
    "glm4_moe": "glm4v_moe glm4v_moe_text",
    "glm4v_text": "glm4v",
    "glm_ocr_text": "glm_ocr",
    "gpt2": "gpt-sw3",
    "granite": "granite4_vision_text granite_docling_text",
    "grok-1": "grok grok1",
    "hunyuan_v1_dense": "hunyuan_vl_text",
    "ernie4_5_vl_moe_text": "ernie4_5_vl_moe ernie4_5_moe_vl",
    "hy_v4": "hy_v4_vl hy_v4_vl_text",
    "llama": "emu3_text_model llava llava_llama solar_pro",
    "mistral": "llava_mistral",
    "llama4_text": "llama4",
    "minimax": "minimax_m1 minimax_text_01",
    "minimax_m3": "minimax_m3_vl minimax_m3_vl_text",
    "mllama_text_model": "mllama",
    "phi": "mixformer-sequential phi-msft",
    "phi3": "phi3_v phi4 phi4_multimodal phi4mm",
    "qwen2": "dream llava_qwen llava_qwen2 minicpmo qwen2_5_omni qwen2_5_omni_text qwen2_5_vl qwen2_5_vl_text qwen2_vl "
    "qwen2_vl_text",
    "qwen3": "sdar qwen3_vl qwen3_vl_text",
    "qwen3_5_text": "qwen3_5 qwen3_5_moe qwen3_5_moe_text",
    "qwen3_moe": "sdar_moe qwen3_omni_moe_text qwen3_vl_moe qwen3_vl_moe_text",
    "stablelm": "stablelm_epoch",
    "step3p5": "step3p7",
    "telechat": "telechat2",
}
"""Model types that are in the table → those whose facts are the same."""

ALIASES = {name: row for row, names in SAME_AS.items() for name in names.split()}


def facts_of(model_type: str) -> Facts | None:
    """The row of a model type, None for an unknown one."""
    name = model_type.lower()
    return FAMILIES.get(ALIASES.get(name, name))
