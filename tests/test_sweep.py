"""The memory-minimal suggestion of the sharded model: D-040, D-041, D-042, D-043; placement D-006, D-007, D-008, D-009, D-010."""

import msgspec
import pytest

from rooflab import catalog, placement, sweep
from rooflab.model import Attention, Block, Dense, Model
from rooflab.units import InputError
from rooflab.work import Layout

SIP = catalog.system("sip")


def _dense(name: str, hidden: int, ffn: int, heads: int, layers: int) -> Model:
    mixer = Attention(heads=heads, kv_heads=8, head_dim=128, value_dim=128)
    return Model(
        name=name, hidden=hidden, vocab=151936, blocks=(Block(count=layers, mixer=mixer, ffn=Dense(width=ffn)),)
    )


QWEN = _dense("Qwen 3 8B", 4096, 12288, 32, 36)
LLAMA = _dense("Llama 3.1 70B", 8192, 28672, 64, 80)


@pytest.mark.parametrize(
    ("model", "context", "attention", "ffn", "devices", "units"),
    [
        # requirement D-043: decode, batch 1, default PE: (devices, cubes)
        (QWEN, 4096, True, True, 4, 1),
        (QWEN, 131072, True, True, 8, 1),
        (QWEN, 1048576, True, True, 32, 4),
        (QWEN, 1048576, True, False, 32, 4),
        (QWEN, 1048576, False, True, 4, 1),
        (LLAMA, 4096, True, True, 32, 4),
        (LLAMA, 131072, True, True, 64, 8),
        (LLAMA, 1048576, True, True, 128, 16),
    ],
)
def test_reference_suggestions(model, context, attention, ffn, devices, units):
    """D-043: the reference's table of smallest shardings."""
    found = sweep.auto_suggest(model, SIP, context, "decode", 1, attention, ffn)
    assert (found.devices, found.units, found.fits) == (devices, units, True)


def test_reference_layouts():
    """D-043 names the layouts behind two of its rows: CP2·TP8·PP2, and CP4·TP8 for attention alone."""
    whole = sweep.auto_suggest(QWEN, SIP, 1048576)
    assert (whole.cp, whole.tp, whole.pp) == (2, 8, 2)
    attention = sweep.auto_suggest(QWEN, SIP, 1048576, include_ffn=False)
    assert (attention.cp, attention.tp, attention.pp) == (4, 8, 1)


@pytest.mark.parametrize("context", [4096, 131072])
def test_suggestion_laws(context):
    """D-042: slack of a tenth; both halves need at least what each needs; more memory never needs more devices."""
    whole = sweep.auto_suggest(QWEN, SIP, context)
    halves = [sweep.auto_suggest(QWEN, SIP, context, include_attention=a, include_ffn=not a) for a in (True, False)]
    assert whole.slack >= 0.1 * SIP.device.memory
    assert whole.devices >= max(half.devices for half in halves)
    roomy = SIP.replace({"memory": "12 GB"})
    assert sweep.auto_suggest(QWEN, roomy, context).devices <= whole.devices
    assert sweep.auto_suggest(QWEN, SIP, context, batch=4).devices >= whole.devices
    assert sweep.auto_suggest(QWEN, SIP, context * 4).devices >= whole.devices


def test_nothing_fits_is_said():
    """D-041: without a fitting layout the least overflow comes back, marked."""
    tiny = SIP.replace({"memory": "1 MB"})
    found = sweep.auto_suggest(QWEN, tiny, 4096)
    assert not found.fits
    assert found.slack < 0
    assert "no layout fits" in found.reason


def test_bad_questions():
    with pytest.raises(InputError, match="mode"):
        sweep.auto_suggest(QWEN, SIP, 4096, "train")
    with pytest.raises(InputError, match="nothing to place"):
        sweep.auto_suggest(QWEN, SIP, 4096, include_attention=False, include_ffn=False)


def test_units_and_groups():
    """D-006..D-009 by hand: CP8 outer × TP8 inner fills one cube a rank: 64 PEs, 8 cubes, 1 SIP."""
    layout = Layout(cp=8, tp=8, cp_placement="outer")
    assert layout.devices() == 64
    assert placement.units_used(SIP, layout) == 8
    assert placement.groups_used(SIP, layout) == 1
    assert placement.devices_per_unit_used(SIP, layout) == 8
    assert placement.placement_valid(SIP, layout)
    # TP16 inner spills over two cubes of eight: priced, and said to be invalid
    spilled = Layout(tp=16)
    assert not placement.placement_valid(SIP, spilled)
    assert placement.units_used(SIP, spilled) == 2
    assert placement.units_touched(SIP, spilled, "tp") == 2
    assert placement.units_touched(SIP, msgspec.structs.replace(spilled, tp_placement="outer"), "tp") == 16


@pytest.mark.parametrize(
    ("cp", "across"),
    # 16 cubes a SIP, one cube a rank: 16 ranks stay inside; 32 ranks on two SIPs cross once each way;
    # 48 on three SIPs cross three times, the closing link included
    [(1, 0), (2, 0), (16, 0), (32, 2), (48, 3), (64, 4)],
)
def test_ring_hops(cp, across):
    """D-010: ring links that cross a SIP boundary, wrap included; all links together are cp."""
    inside, outside = placement.ring_hops(SIP, Layout(cp=cp, tp=8, cp_placement="outer"))
    assert outside == across
    assert inside + outside == (cp if cp > 1 else 0)
