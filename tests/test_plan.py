"""Capacity, rules, hints, storage and symbols: D-105, D-110–D-113, D-300–D-313, D-306–D-311, D-400–D-411, C-016, D-900."""

import math
import random

import pytest

from rooflab import catalog, chip, graph, hf, plan
from rooflab.catalog import rules
from rooflab.estimate import Workload, estimate
from rooflab.fits import memory
from rooflab.fitted import USUAL, pricer_of
from rooflab.model import Attention, Block, Dense, Model, MoE
from rooflab.plan.checks import Scenario
from rooflab.profiles import profile
from rooflab.units import InputError
from rooflab.work import Layout, Precision

SIP = catalog.system("sip")
DGX = catalog.system("dgx-h100")
LLAMA = hf.load("llama-3.1-70b")
DEEPSEEK = hf.load("deepseek-v3")
BF16 = Precision()


def _qwen() -> Model:
    mixer = Attention(heads=32, kv_heads=8, head_dim=128, value_dim=128)
    return Model(
        name="Qwen 3 8B", hidden=4096, vocab=151936, blocks=(Block(count=36, mixer=mixer, ffn=Dense(width=12288)),)
    )


QWEN = _qwen()


def test_reference_is_infeasible_at_its_default():
    """D-303, D-313: one PE reads 13.89 GB at 256 GB/s in 54.3 ms, so 30 ms cannot be met at any context."""
    for context in (128, 4096, 1048576):
        found = plan.capacity(QWEN, SIP, users=100, context=context, tpot=0.030, layers_only=True, rates="device")
        assert found.replicas is None
        assert found.total is None
        assert found.binding is None
        assert found.tightest >= 0.0543
        assert found.notes[0].startswith("infeasible: one user alone takes")
    weights = 36 * (4096 * 128 * (2 * 32 + 2 * 8) + 3 * 4096 * 12288) * 2
    assert found.weights == weights
    assert found.axes[0].value == math.ceil(weights / 6e9) == 3


def test_reference_sizing_by_hand():
    """D-300, D-301: 100 users of 4,096 tokens at 200 ms on the rates of one PE.

    Weights 13.8915 GB take 54.264 ms; a sequence adds 2·6.9458e9/8e12 = 1.7364 ms of compute and 4096·147,456 bytes /
    256 GB/s = 2.3593 ms of cache, so ⌊145.736/4.0957⌋ = 35 fit the limit: 3 replicas of ⌈(13.89 + 35·0.604)/6⌉ = 6 PEs.
    """
    found = plan.capacity(QWEN, SIP, users=100, context=4096, tpot=0.2, layers_only=True, rates="device", even=False)
    assert (found.batch_at_limit, found.users_per_replica, found.replicas) == (35, 35, 3)
    assert [axis.value for axis in found.axes] == [3, 6, 3]
    assert (found.devices_per_replica, found.total, found.binding) == (6, 18, "throughput")
    even = plan.capacity(QWEN, SIP, users=100, context=4096, tpot=0.2, layers_only=True, rates="device")
    assert even.users_per_replica == 34  # D-312: the KV axis for the users each replica really gets
    assert even.total <= found.total


def test_replica_rates_make_it_feasible():
    """D-313: on the rates of a whole replica the same question has an answer, and every step meets the limit."""
    found = plan.capacity(QWEN, SIP, users=100, context=1048576, tpot=0.030, layers_only=True)
    assert found.replicas is not None
    assert found.step is not None
    assert found.step <= 0.030
    assert found.total == found.devices_per_replica * found.replicas
    held = found.weights + found.users_per_replica * found.kv_per_user
    assert held <= found.devices_per_replica * 6e9


def test_laws_of_capacity():
    """D-312: total ≥ A; everybody is served; B at the limit is the largest; tighter limits never need fewer replicas."""
    dice = random.Random(11)
    for _ in range(60):
        users, context = dice.randint(1, 5000), 2 ** dice.randint(8, 17)
        tpot = dice.choice([0.005, 0.01, 0.03, 0.1, 0.5])
        rates = dice.choice(["replica", "device"])
        asked = {"users": users, "context": context, "rates": rates}
        found = plan.capacity(LLAMA, DGX, tpot=tpot, **asked)
        if found.replicas is None:
            assert found.batch_at_limit == 0 or found.weights + found.kv_per_user > 0
            continue
        assert found.total >= found.axes[0].value
        assert found.replicas * found.users_per_replica >= users
        one = chip.of(LLAMA, BF16, DGX.device, context)
        if rates == "replica":
            one = one.scaled(float(found.devices_per_replica), float(found.devices_per_replica))
        assert chip.step_latency(one, float(found.batch_at_limit), float(context)).total <= tpot
        assert chip.step_latency(one, found.batch_at_limit + 1.0, float(context)).total > tpot
        assert found.step <= tpot
        if rates == "device":
            tighter = plan.capacity(LLAMA, DGX, tpot=tpot * 0.8, **asked)
            assert tighter.replicas is None or tighter.replicas >= found.replicas


def test_smallest_over_replica_sizes():
    """The fleet is the smallest over all replica sizes: brute force over the closed form."""
    context, users, tpot = 8192, 700, 0.02
    found = plan.capacity(LLAMA, DGX, users=users, context=context, tpot=tpot)
    one = chip.of(LLAMA, BF16, DGX.device, context)
    kv = graph.kv_bytes_per_device(LLAMA, BF16, Layout(), float(context), 1.0)
    best = math.inf
    for devices in range(1, 257):
        room = (devices * DGX.device.memory - graph.total_weight_bytes(LLAMA, BF16)) // kv
        batch = min(users, room, chip.max_batch_within_slo(one.scaled(devices, devices), tpot, float(context)))
        if batch >= 1:
            best = min(best, devices * math.ceil(users / batch))
    assert found.total == best


def test_more_never_needs_more():
    """More memory, bandwidth or rate never enlarges the fleet, and a larger fleet price follows from the total."""
    asked = {"users": 300, "context": 16384, "tpot": 0.03}
    base = plan.capacity(LLAMA, DGX, **asked)
    for name in ("memory", "memory_bandwidth", "flop_rate"):
        assert plan.capacity(LLAMA, DGX.replace({name: "2x"}), **asked).total <= base.total
    assert base.fleet_price == pytest.approx(base.total * DGX.device_price)
    per_second = base.users_per_replica * base.replicas / base.step
    assert base.cost_per_million == pytest.approx(base.fleet_price * 1e6 / per_second, rel=0.02)


def test_binding_axes():
    """D-301: weights bind one user on a small context, caches bind many, replicas bind a tight limit."""
    assert plan.capacity(LLAMA, DGX, users=1, context=128, tpot=1.0).binding == "capacity"
    assert plan.capacity(LLAMA, DGX, users=2000, context=32768, tpot=5.0).binding == "kv"
    assert plan.capacity(LLAMA, DGX, users=5000, context=1024, tpot=0.012, largest=8).binding == "throughput"
    # several replicas that hold fewer people than their pace allows are there for the caches
    cramped = plan.capacity(LLAMA, DGX, users=3000, context=4096, tpot=0.04, largest=4)
    assert cramped.replicas > 1
    assert cramped.binding == "kv"
    assert cramped.batch_in_memory < cramped.batch_at_limit
    room = cramped.devices_per_replica * DGX.device.memory - cramped.weights
    assert cramped.batch_in_memory * cramped.kv_per_user <= room < (cramped.batch_in_memory + 1) * cramped.kv_per_user


def test_tightest_limit_is_feasible():
    """The tightest limit that is reported can be met, and nothing below it."""
    found = plan.capacity(LLAMA, DGX, users=10, context=4096, tpot=1e-4, largest=64)
    assert found.replicas is None
    met = plan.capacity(LLAMA, DGX, users=10, context=4096, tpot=found.tightest * (1 + 1e-9), largest=64)
    assert met.replicas is not None
    assert plan.capacity(LLAMA, DGX, users=10, context=4096, tpot=found.tightest * 0.999, largest=64).replicas is None


@pytest.mark.parametrize(
    "bad", [{"users": 0}, {"context": 0}, {"tpot": 0.0}, {"tpot": math.nan}, {"rates": "both"}, {"reserve": 1.0}]
)
def test_bad_capacity(bad):
    with pytest.raises(InputError, match=next(iter(bad))):
        plan.capacity(LLAMA, DGX, **{"users": 1, "context": 1024, "tpot": 0.1, **bad})


def test_fleets_of_the_engine():
    """Every fleet serves all users, fits, meets the limit by its own estimate, and one user more would miss it or not fit."""
    used = profile("operator")
    fleets = plan.fleet(LLAMA, DGX, users=400, prompt=3000, output=200, tpot=0.03, ttft=1.0, most=16)
    assert fleets
    assert [f.total for f in fleets] == sorted(f.total for f in fleets)
    for one in fleets:
        assert one.replicas * one.users_per_replica >= 400
        assert one.total == one.replicas * one.devices_per_replica
        pricer = pricer_of(USUAL, DGX, one.layout, used, "vllm")
        work = Workload(batch=one.batch_at_limit, prompt=3000, output=200)
        found = estimate(LLAMA, BF16, one.layout, DGX, work, used, pricer=pricer)
        assert found.fits
        assert found.mid.tpot <= 0.03
        if one.batch_at_limit < 400:
            work = Workload(batch=one.batch_at_limit + 1, prompt=3000, output=200)
            more = estimate(LLAMA, BF16, one.layout, DGX, work, used, pricer=pricer)
            assert not more.fits or more.mid.tpot > 0.03
    assert plan.fleet(LLAMA, DGX, users=4, prompt=3000, output=200, tpot=1e-6, most=8) == ()


def _scenario(layout: Layout, **more) -> Scenario:
    base = {
        "model": LLAMA, "precision": BF16, "layout": layout, "system": DGX, "profile": profile("operator"),
        "work": Workload(batch=64, prompt=2048, output=256),
    }  # fmt: skip
    return Scenario(**{**base, **more})


def _checks(asked: Scenario) -> dict:
    return {one.name: one for one in plan.check(asked, rules.rules("checks")["checks"])}


def test_seven_checks():
    """D-409, D-410: all seven, with numbers; a good layout passes those that a poor one fails."""
    good = _checks(_scenario(Layout(tp=4), work=Workload(batch=700, prompt=128, output=16), tpot=0.2))
    assert len(good) == 7
    assert good["tp_in_domain"].passed
    assert good["tp_within_kv_heads"].passed
    assert good["no_copies_in_domain"].passed
    assert good["bubble"].passed
    assert good["step_meets_limit"].passed
    assert good["batch_near_knee"].passed  # 700 / 295 = 2.4: H100's ridge is 989e12 / 3.35e12
    assert good["batch_near_knee"].value == pytest.approx(700 / (989e12 / 3.35e12), rel=1e-3)
    poor = _checks(_scenario(Layout(tp=16, pp=2, microbatches=1), tpot=0.001))
    assert poor["tp_in_domain"].passed is False  # 16 ranks, 8 GPUs on NVLink
    assert poor["tp_within_kv_heads"].passed is False  # 8 KV heads
    assert poor["no_copies_in_domain"].passed is False
    assert poor["bubble"].value == 0.5  # (2 − 1) / (1 + 2 − 1)
    assert poor["step_meets_limit"].passed is False
    assert poor["batch_near_knee"].passed is False
    assert all(one.fix for one in poor.values() if one.passed is False)
    assert all(not one.fix for one in good.values() if one.passed)
    assert _checks(_scenario(Layout(tp=4)))["step_meets_limit"].passed is None


def test_bubble_formula():
    """D-405: the bubble is (P − 1) / (m + P − 1), not (P − 1) / m."""
    found = _checks(_scenario(Layout(tp=2, pp=4, microbatches=32)))["bubble"]
    assert found.value == pytest.approx(3 / 35)
    assert found.passed
    with pytest.raises(InputError, match="not known"):
        plan.check(_scenario(Layout(tp=4)), [{"check": "colour", "title": "?"}])


def test_copies_by_hand():
    """D-110: what tp 16 and cp 4 hold twice of a model with 8 KV heads.

    W_K and W_V go whole to pairs of ranks; all attention weights to 4 cp ranks; the cache to pairs; the feed-forward,
    split by tp alone, to 4 cp ranks.
    """
    layout = Layout(tp=16, cp=4, kv_shard="replicate", ffn_scope="tp")
    held = {one.tensor: one for one in plan.copies(QWEN, BF16, layout, context=65536)}
    assert held["feed-forward weights"].copies == pytest.approx(4)
    assert held["feed-forward weights"].across == ("cp",)
    assert held["KV cache"].copies == pytest.approx(2)
    assert held["KV cache"].across == ("tp",)
    per_rank = 4096 * 128 * (2 * 2 + 2 * 1)  # two query heads and their part of W_O, one whole KV head twice
    whole = 4096 * 128 * (2 * 32 + 2 * 8)
    assert held["attention weights"].copies == pytest.approx(64 * per_rank / whole)
    assert set(held["attention weights"].across) == {"tp", "cp"}
    assert held["attention weights"].waste == pytest.approx(36 * 2 * (per_rank - whole / 64))
    none = plan.copies(QWEN, BF16, Layout(tp=8, ffn_scope="tp"), context=65536)
    assert [one.tensor for one in none if one.waste] == ["norms and biases"] or not any(one.waste for one in none)


def test_latent_cache_is_held_by_every_rank():
    """A latent has no heads to split: tp ranks hold it whole, attention groups do not."""
    held = {
        one.tensor: one
        for one in plan.copies(DEEPSEEK, BF16, Layout(tp=4, attention_dp=8, ep=32), context=4096, batch=64)
    }
    assert held["KV cache"].copies == pytest.approx(4)
    assert held["KV cache"].across == ("tp",)
    assert held["expert weights"].copies == pytest.approx(1)


def test_copies_account_for_all_bytes():
    """D-057: per-device bytes of every kind together are the busiest device's weights and cache."""
    for model, layout in ((QWEN, Layout(tp=4, pp=2)), (LLAMA, Layout(tp=8)), (DEEPSEEK, Layout(tp=8, ep=8))):
        held = plan.copies(model, BF16, layout, context=8192, batch=4)
        found = memory(model, BF16, layout, DGX, profile("operator"), batch=4, context=8192, prompt=1024)
        total = math.fsum(one.per_device for one in held)
        ends = {one.tensor: one.per_device for one in held}
        if layout.pp > 1:  # embedding and head sit on different stages; the busiest has the larger
            total -= min(ends["embedding"], ends["output head"])
        assert total == pytest.approx(found.weights + found.kv, rel=1e-6)


def test_ranks_by_hand():
    """D-112: 16 ranks over 32 query and 8 KV heads: two query heads each, pairs share a KV head."""
    rows = plan.ranks(QWEN, BF16, Layout(tp=16, kv_shard="replicate"), context=4096)
    assert len(rows) == 16
    assert [rows[i].query_heads for i in (0, 1, 15)] == ["0–1", "2–3", "30–31"]
    assert [rows[i].kv_heads for i in (0, 1, 2, 15)] == ["0", "0", "1", "7"]
    assert rows[3].note == "copy 2 of 2"
    assert rows[0].query == 36 * 4096 * 256 * 2
    assert rows[0].key == 36 * 4096 * 128 * 2
    split = plan.ranks(QWEN, BF16, Layout(tp=16, kv_shard="split"), context=4096)
    assert split[1].kv_heads == "0.5 of 0"
    assert split[1].note == "part 2 of 2 of its width"
    assert math.fsum(row.key for row in split) == 36 * 4096 * 8 * 128 * 2
    latent = plan.ranks(DEEPSEEK, BF16, Layout(tp=8), context=4096)
    assert [row.query_heads for row in latent][:2] == ["0–15", "16–31"]
    assert latent[0].kv_heads == "one latent"
    assert latent[0].kv == 61 * 4096 * 576 * 2


def test_shapes_by_hand():
    """D-113, D-051: columns of W_Q, W_K, W_V, gate and up, rows of W_O and down; products multiply to their weights."""
    rows = {one.tensor: one for one in plan.shapes(QWEN, BF16, Layout(tp=8), context=4096, batch=2)}
    assert (rows["W_Q"].whole, rows["W_Q"].per_device) == ("4,096 × 4,096", "4,096 × 512")
    assert (rows["W_K"].whole, rows["W_K"].per_device) == ("4,096 × 1,024", "4,096 × 128")
    assert (rows["W_O"].whole, rows["W_O"].per_device) == ("4,096 × 4,096", "512 × 4,096")
    assert (rows["W_down"].whole, rows["W_down"].per_device) == ("12,288 × 4,096", "1,536 × 4,096")
    assert rows["K and V"].bytes == 2 * 4096 * 2 * 8 * 128 * 2
    assert rows["K and V"].bytes_per_device == rows["K and V"].bytes / 8
    assert rows["down"].per_device == "(2 × 1,536) · (1,536 × 4,096) → 2 × 4,096"
    for one in rows.values():
        assert one.params_per_device <= one.params


@pytest.mark.parametrize(
    "layout", [Layout(), Layout(tp=2, pp=4), Layout(tp=4, cp=2), Layout(tp=2, attention_dp=4, ep=8)]
)
@pytest.mark.parametrize("name", ["gpt2", "deepseek-v3", "qwen3-next-80b-a3b", "gpt-oss-20b", "llama-3.2-11b-vision"])
def test_tensors_add_up_to_the_memory_of_a_device(name: str, layout: Layout):
    """D-113, D-120, D-121: weights, cache and state of all rows are what the memory of the busiest device counts."""
    model = hf.load(name)
    if layout.ep > 1 and not any(isinstance(block.ffn, MoE) for block in model.blocks):
        layout = Layout(tp=2, attention_dp=4)
    precision, used = BF16, profile("operator")
    found = plan.shapes(model, precision, layout, context=1048, batch=6)
    held = memory(model, precision, layout, DGX, used, batch=6, context=1048, prompt=1000)
    kept = [one for one in found if one.part in ("cache", "state")]
    weights = [one for one in found if one.part not in ("cache", "state", "step")]
    assert math.fsum(one.all_per_device for one in kept) == pytest.approx(held.kv, rel=1e-12)
    assert math.fsum(one.all_per_device for one in weights) == pytest.approx(held.weights, rel=1e-12)
    if layout.devices() == 1:
        assert math.fsum(one.all_bytes for one in weights) == pytest.approx(held.weights, rel=1e-12)
    assert any(one.part == "state" for one in kept) == (name == "qwen3-next-80b-a3b")


def test_every_tensor_of_a_model_by_hand():
    """D-120: Llama-3.1-70B is 80 layers of seven matrices, a table and a head of 128,256 rows, and 161 norms of 8,192."""
    rows = {one.tensor: one for one in plan.shapes(LLAMA, BF16, Layout(tp=4, pp=2), context=4096) if one.part != "step"}
    assert rows["W_gate"].whole == rows["W_up"].whole == "8,192 × 28,672"
    assert rows["W_gate"].all_bytes == 80 * 8192 * 28672 * 2
    assert (rows["W_gate"].layers, rows["W_gate"].layers_per_device) == (80, 40)
    assert rows["W_gate"].all_per_device == 40 * 8192 * 28672 * 2 / 4
    assert rows["W_gate"].split == "columns by 4 ranks"
    assert rows["embedding"].whole == "128,256 × 8,192"
    assert rows["norms and biases"].all_bytes == 160 * 8192 * 2
    ends = rows["embedding"], rows["output head"]
    assert sorted(one.layers_per_device for one in ends) == [0, 1]
    assert {one.split for one in ends} == {"on another pipeline stage", "columns by tp"}
    assert rows["K and V"].split == "heads by tp"


def test_hints_are_evaluated():
    """D-111: warnings first; every effect is the difference of two estimates; a change that is refused is not offered."""
    used = profile("operator")
    asked = _scenario(Layout(tp=16))
    found = plan.hints(asked)
    assert [{"warn": 0, "info": 1, "good": 2}[h.severity] for h in found] == sorted(
        {"warn": 0, "info": 1, "good": 2}[h.severity] for h in found
    )
    spill = next(h for h in found if h.category == "COMM")
    assert spill.severity == "warn"
    assert spill.change["tp"] == 8
    work = asked.work
    before, after = (estimate(LLAMA, BF16, Layout(tp=tp), DGX, work, used) for tp in (16, 8))
    assert spill.time == pytest.approx(before.mid.tpot - after.mid.tpot, rel=1e-9)
    assert spill.memory == pytest.approx(before.memory.used - after.memory.used, rel=1e-9)
    over = plan.hints(_scenario(Layout(tp=1)))
    assert over[0].severity == "warn"
    assert over[0].message.startswith("over the memory by")
    weights = next(h for h in over if h.message.startswith("weights take"))
    assert weights.change == {"tp": 2}
    assert weights.memory > 0


def test_hints_of_the_hierarchy():
    """D-111: an unhidden ring, a wider feed-forward scope and idle PEs are said with their effects."""
    asked = Scenario(
        model=QWEN, precision=BF16, system=SIP, profile=profile("sharded"),
        layout=Layout(cp=8, tp=2, cp_placement="outer", kv_shard="split", ffn_scope="tp"),
        work=Workload(batch=1, prompt=131072, output=2),
    )  # fmt: skip
    found = plan.hints(asked)
    scope = next(h for h in found if h.change == {"ffn_scope": "tp_cp"})
    saved = 36 * 3 * 4096 * 12288 * 2 * (1 / 2 - 1 / 16)
    assert scope.memory == pytest.approx(saved, rel=0.05)  # transient activations shrink a little as well
    idle = next(h for h in found if h.change == {"cp_placement": "inner"} or "devices work" in h.message)
    assert "2 of 8 devices work in each of 8 units" in idle.message


def test_symbols_have_the_users_machine():
    """D-105, D-900: values of this scenario's own machine, B* and L* from them."""
    terms = {one.symbol: one for one in plan.glossary(_scenario(Layout(tp=8)))}
    assert terms["d"].value == 8192
    assert terms["H_kv"].value == 8
    assert terms["TP"].value == 8
    assert terms["C/W"].value == pytest.approx(989e12 / 3.35e12, rel=1e-3)
    assert terms["kv"].value == 2 * 8 * 128 * 2 * 80
    faster = {
        one.symbol: one
        for one in plan.glossary(_scenario(Layout(tp=8), system=DGX.replace({"memory_bandwidth": "2x"})))
    }
    assert faster["B*"].value == pytest.approx(terms["B*"].value / 2)
    assert faster["L*"].value == pytest.approx(terms["L*"].value * 2)
    groups = [one.group for one in plan.glossary(_scenario(Layout(tp=8)))]
    assert list(dict.fromkeys(groups)) == ["model", "workload", "layout", "machine", "derived", "results"]


def test_symbols_are_those_of_the_profile():
    """D-105: overheads, shares and reserve that the profile has, and the prefixes of its stages: S1–S10, C, F1–F5, CF."""
    classroom = {t.symbol: t for t in plan.glossary(_scenario(Layout(tp=8), profile=profile("classroom")))}
    assert (classroom["η_c"].value, classroom["η_m"].value, classroom["t_pass"].value) == (0.5, 0.7, 1e-4)
    assert classroom["M_r"].value == 2e9
    sharded = {t.symbol: t for t in plan.glossary(_scenario(Layout(tp=8), profile=profile("sharded")))}
    assert sharded["F1 …"].value == 5
    assert 8 <= sharded["S1 …"].value <= 10
    assert "t_launch" not in sharded
    assert "B_knee" not in sharded or sharded["B_knee"].value > sharded["B*"].value


def test_rules_are_data():
    """D-306–D-311, D-400–D-411: the counts of the reference's tables; ballparks are marked unofficial."""
    assert [t["name"] for t in rules.rules("targets")["targets"]] == ["voice", "code", "chat", "agentic", "batch"]
    book = rules.rules("deployment")
    assert len(book["layers"]) == 3
    assert [(t["cp"] * t["tp"], t["context"], t["batch"]) for t in book["templates"]] == [
        (8, 32768, 64), (32, 131072, 32), (256, 1048576, 4),
    ]  # fmt: skip
    assert all(t["devices"] == t["cp"] * t["tp"] for t in book["templates"])
    assert book["ballparks_basis"]["official"] is False
    assert len(rules.rules("regimes")["regimes"]) == 3
    assert [row["axis"] for row in rules.rules("playbook")["axes"]] == ["capacity", "kv", "throughput"]
    assert len(rules.rules("levers")["levers"]) == 11
    assert {"dp", "tp", "pp", "cp", "ep"} <= {row["axis"] for row in rules.rules("techniques")["techniques"]}
    guidance = rules.rules("guidance")
    assert len(guidance["misconceptions"]) == 9
    assert (len(guidance["procedure"]), len(guidance["cases"]), len(guidance["training"])) == (7, 5, 6)
    assert len(rules.rules("checks")["checks"]) == 7
    with pytest.raises(InputError, match="not a collection"):
        rules.rules("colours")
