"""Which expert kernel stands for an engine where none is named: by version and make, with bands that hold for the mixture."""

from pathlib import Path

import numpy as np
import pytest

from rooflab import catalog, graph, hf
from rooflab.fitted import Fitted
from rooflab.kernels import experts
from rooflab.kernels.machine import Machine
from rooflab.measure import compare, tables
from rooflab.model import MoE
from rooflab.parameters import Fits, fits_for, mixtures
from rooflab.profiles import profile
from rooflab.work import Layout, Precision, Step

TABLE = Path(__file__).resolve().parent.parent / "data" / "operators" / "moe.parquet"


@pytest.fixture(scope="module")
def frame():
    return tables.load(TABLE)


def parameters(fits: Fits, dtype: str, backend: str, kernel: str = "", version: str = ""):
    found = fits.choose("experts", (dtype,), backend, kernel, version)
    assert found is not None
    return found.parameters


@pytest.mark.parametrize(
    ("kernel", "make"),
    [
        ("vllm_fused_moe", "triton"),
        ("vllm_unquantizedfusedmoe_triton_tritonexperts", "triton"),
        ("vllm_gptossmxfp4moe_triton_oaitritonmxfp4expertsmonolithic", "triton"),
        ("sglang_marlin_moe", "marlin"),
        ("vllm_modeloptfp8moe_flashinfer_cutlass_flashinferexperts", "cutlass"),
        ("sglang_flashinfer_trtllm_moe", "trtllm"),
        ("deepgemm_masked", "deepgemm"),
        ("something new", ""),
    ],
)
def test_a_kernels_name_says_its_make(kernel, make):
    """Read off the names engines give their kernels."""
    assert experts.make(kernel) == make


def test_an_engines_version_decides_what_it_runs(frame):
    """The table: on B200 vLLM 0.19 and 0.22 ran bf16 experts in `vllm_fused_moe` (Triton), 0.24 mostly in TensorRT-LLM's."""
    own = fits_for(catalog.system("b200-sxm"))
    rows = frame[(frame.system == "b200_sxm") & (frame.backend == "vllm") & (frame.moe_dtype == "bfloat16")]
    for version in ("0.19.0", "0.24.0"):
        usual = rows[rows.version == version].kernel_source.value_counts().index[0]
        assert parameters(own, "bf16", "vllm", version=version) == parameters(own, "bf16", "vllm", usual)
    assert parameters(own, "bf16", "vllm", version="0.19.0") != parameters(own, "bf16", "vllm", version="0.24.0")
    assert parameters(own, "bf16", "vllm", version="0.6.3") == parameters(own, "bf16", "vllm", version="0.19.0")
    assert parameters(own, "bf16", "vllm") == parameters(own, "bf16", "vllm", version="0.24.0")


def test_a_kernel_nobody_measured_is_priced_as_one_of_its_make():
    """A name of another version: the library in it decides, not what the engine usually runs."""
    own = fits_for(catalog.system("b200-sxm"))
    renamed = parameters(own, "fp8_block", "vllm", "vllm_newmoe_triton_experts")
    assert renamed == parameters(own, "fp8_block", "vllm", "vllm_fused_moe")
    assert renamed != parameters(own, "fp8_block", "vllm")


@pytest.mark.parametrize("device", ["b200-sxm", "h100-sxm"])
@pytest.mark.parametrize(
    ("model", "dtype"),
    [
        ("kimi-k2.6", "int4_wo"),
        ("gpt-oss-120b", "w4a16_mxfp4"),
        ("deepseek-v3", "fp8_block"),
        ("qwen3-235b-a22b", "bfloat16"),
        ("mixtral-8x7b", "bfloat16"),
    ],
)
@pytest.mark.parametrize("tokens", [1, 32, 1024])
def test_an_estimates_experts_are_those_measured(frame, device, model, dtype, tokens):
    """A-061: the layer as an estimate prices it, no kernel named, against the same shape skewed routing."""
    shape = hf.load(str(catalog.model_path(model)))
    ffn = next(block.ffn for block in shape.blocks if isinstance(block.ffn, MoE))
    rows = frame[
        (frame.system == device.replace("-", "_"))
        & (frame.backend == "vllm")
        & (frame.moe_dtype == dtype)
        & (frame.hidden_size == shape.hidden)
        & (frame.inter_size == ffn.width)
        & (frame.num_experts == ffn.experts)
        & (frame.moe_ep_size == 1)
        & (frame.moe_tp_size == 1)
        & (frame.num_tokens == tokens)
    ]
    rows = rows[rows.version == rows.version.max()]
    if rows.empty:
        pytest.skip("not measured")
    kept = {name: value for name, value in shape.quantization.items() if name in Precision.__struct_fields__}
    step = Step(decode_sequences=tokens, decode_context=1000)
    pricer = Fitted(catalog.system(device), Layout(), profile("operator"), "vllm")
    seconds = 0.0
    for op in graph.operators(shape, Precision(**kept), Layout(), step):
        if op.name.startswith(("experts_up", "experts_down")):
            cost = pricer.cost(op)
            seconds += max(cost.compute, cost.memory) + cost.overhead
    assert seconds * 1e3 == pytest.approx(rows.latency_ms.median(), rel=0.5)


def test_operands_are_supplied_to_small_processors_too():
    """Law: with a quarter of the arithmetic and all else alike, small tiles lose less than three quarters of their speed."""
    load = experts.even_load(64.0, 16.0)
    p = experts.Parameters(launch=0.0, compute=0.8, memory=0.9, permute=1.0, rows=0.5)
    times = []
    for rate in (2048.0, 512.0):
        small = Machine(bandwidth=1e15, rate=rate * 100.0 * 1e9, units=100.0, clock=1e9)
        compute, _memory, _fixed = experts.seconds(load, 4096.0, 4096.0, 2048.0, 2.0, 2.0, small, p)
        times.append(compute)
    assert times[0] < times[1] < 3.0 * times[0]


def test_experts_whose_kernel_is_not_named(frame):
    """A-061: held-out rows without their kernels' names, versions known: 15 % in the median, eight in ten in the band."""
    blind = frame.assign(kernel_source=np.nan)
    rows = compare.operators_errors(blind, held=True)["operators"]
    weights = [row["predicted"] for row in rows]
    assert sum(weights) > 50_000
    assert np.average([row["median"] for row in rows], weights=weights) <= 0.16
    assert 0.72 <= np.average([row["coverage"] for row in rows], weights=weights) <= 0.88


def test_experts_of_a_version_nobody_names(frame):
    """A-061: neither kernel nor version: bands of the mixture still hold eight in ten, though they are up to threefold."""
    blind = frame.assign(kernel_source=np.nan, version="")
    rows = compare.operators_errors(blind, held=True)["operators"]
    weights = [row["predicted"] for row in rows]
    assert np.average([row["median"] for row in rows], weights=weights) <= 0.22
    assert 0.72 <= np.average([row["coverage"] for row in rows], weights=weights) <= 0.88


def test_mixtures_are_of_several_kernels_and_their_bands_are_in_order():
    for records in mixtures().values():
        assert any(one.kernels > 1 for one in records)
        assert all(0.0 < one.band[0] < one.band[1] for one in records)


def drawn(count: int, topk: int, tokens: int, seed: int) -> tuple[float, list[float]]:
    """Experts hit and pairs of each, where popularity is log-uniform over a hundredfold: drawn at random, token by token."""
    rng = np.random.default_rng(seed)
    popularity = 100.0 ** rng.random(count)
    weights = popularity / popularity.sum()
    chosen = [rng.choice(count, topk, replace=False, p=weights) for _ in range(tokens)]
    loads = np.bincount(np.concatenate(chosen), minlength=count)
    return float((loads > 0).sum()), loads.tolist()


@pytest.mark.parametrize(
    ("count", "topk", "tokens"), [(128, 4, 1), (128, 4, 16), (128, 8, 64), (256, 8, 32), (60, 4, 200)]
)
def test_uneven_routing_against_drawn_tokens(count, topk, tokens):
    """Expected experts hit and row tiles of 16: the mean of forty random routings, within a tenth."""
    load = experts.uneven_load(float(tokens), float(count), float(topk), 1.0)
    runs = [drawn(count, topk, tokens, seed) for seed in range(40)]
    assert load.pairs == pytest.approx(tokens * topk, rel=0.05)
    assert load.distinct == pytest.approx(np.mean([hit for hit, _ in runs]), rel=0.1)
    tiles = np.mean([sum(-(-pairs // 16) for pairs in loads) for _, loads in runs])
    assert load.tiles[experts.TILE_ROWS.index(16.0)] == pytest.approx(tiles, rel=0.1)


@pytest.mark.parametrize(("count", "ranks"), [(128, 2), (128, 8), (256, 16), (256, 64)])
def test_the_busiest_rank_against_random_placement(count, ranks):
    """Largest of the ranks' sums of popularity over their mean, the mean of two hundred placements, within a seventh."""
    rng = np.random.default_rng(3)
    found = []
    for _ in range(200):
        sums = (100.0 ** rng.random(count)).reshape(ranks, -1).sum(axis=1)
        found.append(sums.max() / sums.mean())
    assert experts.heaviest(float(count), float(ranks)) == pytest.approx(np.mean(found), rel=0.15)
    assert experts.heaviest(float(count), 1.0) == 1.0


def test_uneven_routing_reads_fewer_experts_than_even_and_more_tokens_never_less():
    """Law: by convexity a skewed draw hits fewer experts than an even one; everything grows with the tokens."""
    tokens = np.exp2(np.linspace(0.0, 14.0, 60))
    load = experts.uneven_load(tokens, 128.0, 8.0, 4.0)
    even = 128.0 / 4.0 * (1.0 - (1.0 - 8.0 / 128.0) ** tokens)
    assert (load.distinct[10:] < even[10:] * experts.heaviest(128.0, 4.0)).all()
    for column in (load.pairs, load.distinct, *load.tiles):
        assert (np.diff(column) >= -1e-9).all()
    one = experts.uneven_load(float(tokens[20]), 128.0, 8.0, 4.0)
    assert one.distinct == pytest.approx(load.distinct[20], rel=1e-12)
    assert one.tiles == pytest.approx([column[20] for column in load.tiles], rel=1e-12)
