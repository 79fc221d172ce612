"""Reading configurations: where the language model is, what is assumed and said, what is refused. A-030, E-requirements."""

import json
import logging
from pathlib import Path
from unittest.mock import Mock

import published
import pytest

from rooflab import hf
from rooflab.model import Attention, MoE, Recurrent
from rooflab.units import InputError

LLAMA = {
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 100,
    "tie_word_embeddings": False,
    "rms_norm_eps": 1e-6,
    "hidden_act": "silu",
}
# by hand: attention 64·64·2 + 64·32·2, network 3·64·96, norms 2·64; table and head 100·64 each; final norm 64
LAYER = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 96 + 2 * 64
TOTAL = 2 * LAYER + 2 * 100 * 64 + 64


def changed(**values: object) -> dict:
    return {key: value for key, value in {**LLAMA, **values}.items() if value is not ...}


def test_a_plain_model_by_hand():
    assert hf.read(LLAMA).params() == TOTAL


# ------------------------------------------------------------------------------------------------ heads


def test_head_size_is_explicit_or_hidden_over_heads():
    wide = hf.read(changed(head_dim=32))
    assert wide.params() == TOTAL + 2 * (64 * 64 * 2 + 64 * 32 * 2)  # every head twice as wide
    mixer = hf.read(LLAMA).blocks[0].mixer
    assert isinstance(mixer, Attention)
    assert mixer.head_dim == 16


@pytest.mark.parametrize("absent", [..., None])
def test_missing_kv_heads_mean_one_per_head(absent: object):
    mixer = hf.read(changed(num_key_value_heads=absent)).blocks[0].mixer
    assert isinstance(mixer, Attention)
    assert mixer.kv_heads == 4


def test_heads_must_form_groups():
    with pytest.raises(InputError, match=r"num_key_value_heads = 3 .*4 heads"):
        hf.read(changed(num_key_value_heads=3))


# ------------------------------------------------------------------------------------------------ windows


@pytest.mark.parametrize(
    "extra, windows",
    [
        (
            {"model_type": "qwen2", "sliding_window": 32, "use_sliding_window": False, "max_window_layers": 1},
            [0, 0, 0, 0],
        ),
        (
            {"model_type": "qwen2", "sliding_window": 32, "use_sliding_window": True, "max_window_layers": 3},
            [0, 0, 0, 32],
        ),
        ({"model_type": "mistral", "sliding_window": 32}, [32] * 4),
        ({"model_type": "mistral", "sliding_window": None}, [0] * 4),
        ({"model_type": "gemma2", "sliding_window": 32, "head_dim": 16}, [32, 0, 32, 0]),
        (
            {"model_type": "gemma3_text", "sliding_window": 32, "sliding_window_pattern": 2, "head_dim": 16},
            [32, 0, 32, 0],
        ),
        ({"model_type": "exaone4", "sliding_window": 32, "sliding_window_pattern": "LLG"}, [32, 32, 0, 32]),
        ({"layer_types": ["sliding_attention", "full_attention"] * 2, "sliding_window": 8}, [8, 0, 8, 0]),
    ],
)
def test_windows(extra: dict, windows: list[int]):
    found = hf.read(changed(num_hidden_layers=4, **extra))
    per_kind = {block.mixer.window: block.count for block in found.blocks}
    assert per_kind == {window: windows.count(window) for window in windows}
    expected = sum(min(window or 1000, 1000) for window in windows)
    mixer = found.blocks[0].mixer
    assert found.kv_elements(1000.0) == expected * 2 * mixer.kv_heads * mixer.head_dim


# ------------------------------------------------------------------------------------------------ experts


MIXTURE = {
    **LLAMA,
    "model_type": "qwen3_moe",
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 24,
    "head_dim": 16,
}


def sparse_layers(config: dict) -> int:
    return sum(block.count for block in hf.read(config).blocks if isinstance(block.ffn, MoE))


@pytest.mark.parametrize(
    "extra, sparse",
    [
        ({}, 12),
        ({"decoder_sparse_step": 2}, 6),
        ({"decoder_sparse_step": 1, "mlp_only_layers": [0, 1, 2]}, 9),
        ({"mlp_layer_types": ["dense"] * 4 + ["sparse"] * 8}, 8),
    ],
)
def test_which_layers_have_experts(extra: dict, sparse: int):
    assert sparse_layers({**MIXTURE, "num_hidden_layers": 12, **extra}) == sparse


def test_expert_layers_of_other_families():
    deepseek = published.config("deepseek-ai__DeepSeek-V3.json")
    assert sparse_layers(deepseek) == 61 - 3
    assert sparse_layers(published.config("meta-llama__Llama-4-Maverick-17B-128E-Instruct.json")) == 24
    assert sparse_layers(published.config("stepfun-ai__step3-text-fp8.json")) == 56


# ------------------------------------------------------------------------------------------------ sections and tying


def test_the_language_model_inside_a_multimodal_config():
    outer = {"model_type": "some_vlm", "text_config": LLAMA, "vision_config": {"model_type": "unheard_of"}}
    found = hf.read(outer)
    assert found.params() == TOTAL
    assert found.vision_params is None
    assert any("unheard_of" in note for note in found.notes)


@pytest.mark.parametrize("where", ["text", "outer"])
def test_tying_said_in_either_section(where: str):
    inner = changed(tie_word_embeddings=...)
    outer = {"model_type": "llava", "text_config": inner}
    (inner if where == "text" else outer)["tie_word_embeddings"] = True
    assert hf.read(outer).params() == TOTAL - 100 * 64


def test_class_defaults_complete_a_nested_section_and_are_named():
    """google/gemma-3-4b-it leaves heads, head size and vocabulary out; its text model has 3,880,263,168 parameters."""
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
    found = hf.read({"model_type": "gemma3", "text_config": {**text, "sliding_window": 1024}})
    assert found.params() == 3_880_263_168
    (note,) = [note for note in found.notes if "reference class" in note]
    assert "num_attention_heads 8" in note
    assert "vocab_size 262208" in note


# ------------------------------------------------------------------------------------------------ unknown types


def test_an_unknown_type_is_read_from_its_keys_and_says_so():
    found = hf.read(changed(model_type="brand_new"))
    assert found.params() == TOTAL
    (note,) = [note for note in found.notes if "brand_new" in note]
    for word in ("RMS norms", "gated", "no biases"):
        assert word in note
    tied = hf.read(changed(model_type="brand_new", tie_word_embeddings=...))
    assert tied.params() == TOTAL - 100 * 64
    assert any("tied embeddings because" in note for note in tied.notes)


def test_an_unknown_type_with_a_known_class_is_read_as_that():
    found = hf.read(changed(model_type="my_llama", architectures=["LlamaForCausalLM"]))
    assert found.params() == TOTAL
    assert any("read as llama" in note for note in found.notes)


@pytest.mark.parametrize(
    "total, config",
    [  # totals of the published checkpoints
        (2_768_345_600, {"d_model": 2560, "n_layer": 64, "vocab_size": 50277, "ssm_cfg": {}, "pad_vocab_size_multiple": 8}),
        (6_921_720_704, {"model_type": "RefinedWebModel", "hidden_size": 4544, "n_head": 71, "n_layer": 32, "multi_query": True,
                         "parallel_attn": True, "bias": False, "vocab_size": 65024}),
        (271_527_168, {"model_type": "openelm", "model_dim": 1280, "num_transformer_layers": 16, "head_dim": 64,
                       "num_query_heads": [12] * 5 + [16] * 7 + [20] * 4, "num_kv_heads": [3] * 5 + [4] * 7 + [5] * 4,
                       "ffn_multipliers": [0.5, 0.73, 0.97, 1.2, 1.43, 1.67, 1.9, 2.13, 2.37, 2.6, 2.83, 3.07, 3.3, 3.53,
                                           3.77, 4.0],
                       "ffn_dim_divisor": 256, "vocab_size": 32000, "tie_word_embeddings": True}),
        (456_089_655_296, {"model_type": "minimax_text_01", "hidden_size": 6144, "intermediate_size": 9216, "head_dim": 128,
                           "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8,
                           "num_local_experts": 32, "num_experts_per_tok": 2, "vocab_size": 200064,
                           "attn_type_list": ([0] * 7 + [1]) * 10, "tie_word_embeddings": False}),
        (80_393_183_232, {"model_type": "hunyuan_v1_moe", "hidden_size": 4096, "intermediate_size": 3072, "head_dim": 128,
                          "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "num_experts": 64,
                          "moe_topk": [8] * 32, "num_shared_expert": [1] * 32, "moe_intermediate_size": [3072] * 32,
                          "vocab_size": 128167, "tie_word_embeddings": True}),
        (7_272_665_088, {"model_type": "falcon_mamba", "hidden_size": 4096, "num_hidden_layers": 64, "state_size": 16,
                         "conv_kernel": 4, "intermediate_size": 8192, "time_step_rank": 256, "vocab_size": 65024,
                         "use_bias": False, "use_conv_bias": True, "tie_word_embeddings": False, "expand": 16}),
        (1_170_340_608, {"model_type": "lfm2", "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 32,
                         "full_attn_idxs": [2, 5, 8, 10, 12, 14], "num_key_value_heads": 8, "conv_L_cache": 3,
                         "vocab_size": 65536, "block_ff_dim": 12288, "block_auto_adjust_ff_dim": True}),
        (331_196_416, {"model_type": "opt", "hidden_size": 1024, "word_embed_proj_dim": 512, "num_hidden_layers": 24,
                       "num_attention_heads": 16, "ffn_dim": 4096, "vocab_size": 50272, "max_position_embeddings": 2048,
                       "do_layer_norm_before": False}),
        (9_399_951_392, {"model_type": "chatglm", "hidden_size": 4096, "num_layers": 40, "ffn_hidden_size": 13696,
                         "num_attention_heads": 32, "multi_query_attention": True, "multi_query_group_num": 2,
                         "kv_channels": 128, "padded_vocab_size": 151552, "add_qkv_bias": True, "rmsnorm": True,
                         "tie_word_embeddings": False}),
    ],
)  # fmt: skip
def test_unusual_formats_by_published_totals(total: int, config: dict):
    assert hf.read(config).params() == total


def test_layers_cut_by_a_search():
    """DeciLM's format: a part may be missing or a plain matrix; widths are two thirds of a multiple, rounded up to 256."""
    whole = {"attention": {"n_heads_in_group": 2}, "ffn": {"ffn_mult": 1.5}}
    bare = {"attention": {"no_op": True}, "ffn": {"replace_with_linear": True}}
    config = changed(
        model_type="nemotron-nas", block_configs=[whole, bare], num_key_value_heads=None, intermediate_size=None
    )
    width = 256  # int(2 · 1.5 · 64 / 3) = 64, rounded up
    first = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * width + 2 * 64
    assert hf.read(config).params() == first + (64 * 64 + 64) + 2 * 100 * 64 + 64


# ------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize(
    "key", ["hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size"]
)
@pytest.mark.parametrize("value", [..., None, "big", True, -1, 0, 1.5, 10**30, float("nan"), [], {}])
def test_sizes_are_refused_by_name(key: str, value: object):
    with pytest.raises(InputError) as caught:
        hf.read(changed(**{key: value}))
    assert key in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("key", ["num_experts_per_tok", "moe_intermediate_size"])
def test_b53_missing_expert_sizes_are_refused_with_the_keys_tried(key: str):
    """ai-dynamo/aiconfigurator #1039: shapes of another model stood in for missing keys."""
    with pytest.raises(InputError, match=key):
        hf.read({name: value for name, value in MIXTURE.items() if name != key})


@pytest.mark.parametrize(
    "config, words",
    [
        (
            {"model_type": "t5", "is_encoder_decoder": True, "architectures": ["T5ForConditionalGeneration"]},
            "encoder-decoder",
        ),
        ({"_class_name": "StableDiffusionPipeline", "_diffusers_version": "0.30"}, "diffusion"),
        ({"model_type": "bert", "architectures": ["BertForMaskedLM"], "hidden_size": 768}, "encoder"),
        ({"model_type": "whisper", "is_encoder_decoder": True}, "encoder-decoder"),
        ({"model_type": "vit", "hidden_size": 768, "num_hidden_layers": 12, "image_size": 224}, "encoder"),
        (
            {"model_type": "mystery", "hidden_size": 768, "num_hidden_layers": 2, "num_attention_heads": 4},
            "vocab_size|intermediate",
        ),
        ([1, 2], "JSON object"),
        ({}, "hidden_size"),
    ],
)
def test_what_is_no_decoder_is_refused(config: object, words: str):
    with pytest.raises(InputError, match=words):
        hf.read(config)


def test_unknown_layer_kinds_are_refused_with_the_known_ones():
    with pytest.raises(InputError, match=r"'telepathy'.*full_attention"):
        hf.read(changed(layer_types=["telepathy", "full_attention"]))


# ------------------------------------------------------------------------------------------------ loading


def test_load_from_the_catalog_a_file_and_a_folder(tmp_path: Path):
    assert hf.load("llama-3.1-8b").params() == 8_030_261_248
    assert hf.load("meta-llama/Llama-3.1-8B-Instruct").params() == 8_030_261_248
    assert hf.load("LLAMA 3.1 8B").params() == 8_030_261_248
    file = tmp_path / "tiny.json"
    file.write_text(json.dumps(LLAMA), encoding="utf-8")
    assert hf.load(str(file)).name == "tiny"
    folder = tmp_path / "my-model"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    found = hf.load(str(folder))
    assert (found.params(), found.name) == (TOTAL, "my-model")


def test_every_catalog_model_loads_and_is_described():
    index = published.catalog_index()
    assert set(index) == set(hf.names())
    assert len(index) >= 60
    for name, entry in index.items():
        assert hf.load(name).params() > 0
        assert {"title", "id", "source", "licence", "exactness"} <= entry.keys()
        assert "RECON" not in entry["exactness"]


def test_aliases_are_unambiguous():
    seen: dict[str, str] = {}
    for name, entry in published.catalog_index().items():
        for alias in (name, entry["id"], *entry.get("aliases", ())):
            assert seen.setdefault(alias.lower(), name) == name


@pytest.mark.parametrize(
    "source, words",
    [
        ("llama-9.9", "did you mean"),
        ("./nowhere/config.json", "no file"),
        ("", "is not a name"),
        ("a\0b", "neither a file nor|cannot be read"),
        ("x" * 10_000, "neither a file nor|cannot be read"),
    ],
)
def test_what_cannot_be_found_says_what_to_do(source: str, words: str):
    with pytest.raises(InputError, match=words) as caught:
        hf.load(source)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "raw, words",
    [
        (b"not json", "is not JSON"),
        (b"[1, 2]", "not a JSON object"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b'{"a":' * 100_000, "nested too deeply|is not JSON"),
        (b"[" * 500_000, "nested too deeply|is not JSON"),
        (b'{"hidden_size": ' + b"9" * 6000 + b"}", "is not JSON"),
        (b"", "is not JSON"),
        (b" " * 20_000_001, "has 20000001 bytes"),
    ],
)
def test_bad_files_are_refused(raw: bytes, words: str, tmp_path: Path):
    file = tmp_path / "config.json"
    file.write_bytes(raw)
    with pytest.raises(InputError, match=words):
        hf.load(str(file))


def test_a_folder_without_a_config_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"has no config\.json"):
        hf.load(str(tmp_path))


# ------------------------------------------------------------------------------------------------ the hub


class Hub:
    """Stands for huggingface_hub: gives one file, or fails as the real client does."""

    def __init__(self, outcome: object) -> None:
        self.outcome, self.asked = outcome, []

    def hf_hub_download(self, repo: str, name: str, revision: str | None = None, **how: object) -> str:
        logging.getLogger("huggingface_hub").warning("Retrying in 8 s")
        self.asked.append((repo, name, revision, *how))
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return str(self.outcome)


def plug(monkeypatch: pytest.MonkeyPatch, hub: Hub) -> None:
    monkeypatch.setattr("rooflab.hf.source.find_spec", lambda name: object())
    monkeypatch.setattr("rooflab.hf.source.import_module", lambda name: hub)


def test_hub_fetches_the_config_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LLAMA), encoding="utf-8")
    hub = Hub(file)
    plug(monkeypatch, hub)
    found = hf.load("someone/tiny@v1")
    assert (found.params(), found.name, found.source) == (TOTAL, "someone/tiny", "hub: someone/tiny@v1")
    assert hub.asked == [("someone/tiny", "config.json", "v1")]


def test_a_hub_without_an_address_is_not_tried_again_and_again(monkeypatch: pytest.MonkeyPatch, caplog):
    """No network: the cache is asked at once, and nothing is said beside the one line of the error."""
    hub = Hub(type("LocalEntryNotFoundError", (Exception,), {})("not there"))
    hub.ENDPOINT = "https://hub.invalid"
    plug(monkeypatch, hub)
    monkeypatch.setattr("urllib.request.getproxies", dict)
    monkeypatch.setattr("socket.getaddrinfo", Mock(side_effect=OSError("Name or service not known")))
    with pytest.raises(InputError, match="cannot be reached"):
        hf.load("someone/tiny")
    assert hub.asked == [("someone/tiny", "config.json", None, "local_files_only")]
    assert not caplog.records


@pytest.mark.parametrize(
    "kind, words",
    [
        ("GatedRepoError", "is gated"),
        ("RepositoryNotFoundError", "is not on the hub"),
        ("EntryNotFoundError", r"has no config\.json"),
        ("LocalEntryNotFoundError", "cannot be reached"),
        ("OfflineModeIsEnabled", "cannot be reached"),
        ("ConnectTimeout", "could not be fetched"),
    ],
)
def test_hub_failures_are_one_clear_line(kind: str, words: str, monkeypatch: pytest.MonkeyPatch):
    plug(monkeypatch, Hub(type(kind, (Exception,), {})("line one\nline two")))
    with pytest.raises(InputError, match=words) as caught:
        hf.load("someone/private")
    assert "\n" not in str(caught.value)


def test_without_the_hub_extra_the_message_says_what_to_install(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rooflab.hf.source.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"rooflab\[hub\]"):
        hf.load("someone/something")


# ------------------------------------------------------------------------------------------------ merging


def test_equal_layers_are_one_block():
    assert [block.count for block in hf.load("llama-3.1-70b").blocks] == [80]
    next_model = hf.load("qwen3-next-80b-a3b")
    assert sorted((type(block.mixer).__name__, block.count) for block in next_model.blocks) == [
        ("Attention", 12),
        ("Recurrent", 36),
    ]
    assert any(isinstance(block.mixer, Recurrent) for block in next_model.blocks)


def test_a_catalog_model_with_figures_changed():
    """D-021: dimensions are overridden one by one; half of Llama-3.1-70B's 80 layers are half of its layers' parameters.

    A layer holds attention 8192·(8192+1024+1024+8192) and 3·8192·28672 of feed-forward and two norms; outside the layers are
    two embeddings of 128256 rows and a norm.
    """
    layer = 8192 * (8192 + 1024 + 1024 + 8192) + 3 * 8192 * 28672 + 2 * 8192
    outside = 2 * 128256 * 8192 + 8192
    model = hf.like({"like": "llama-3.1-70b", "num_hidden_layers": 40})
    assert model.params() == 40 * layer + outside
    assert hf.like({"like": "meta-llama/Llama-3.1-70B"}).params() == 80 * layer + outside
    assert hf.dimensions({"like": "llama-3.1-70b", "num_hidden_layers": 40})["num_hidden_layers"] == 40
    assert hf.dimensions("nowhere/none") == {}


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"like": "nothing-such"}, "not in the catalog"),
        ({"like": 5}, "not in the catalog"),
        ({"like": "gpt2", "hidden_size": 64}, "no such figure"),
        ({"like": "llama-3.1-8b", "vocab_size": 5}, "cannot be changed here"),
        ({"like": "llama-3.1-8b", "hidden_size": 0}, "whole number"),
        ({"like": "llama-3.1-8b", "hidden_size": True}, "whole number"),
        ({"like": "llama-3.1-8b", "hidden_size": "4096"}, "whole number"),
    ],
)
def test_figures_that_cannot_be_changed_are_refused(changes, words):
    with pytest.raises(InputError, match=words):
        hf.like(changes)
