"""The value types of a model: counts derived by hand, and laws that hold for every mixer and feed-forward."""

from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab.model import Attention, Block, Dense, Indexer, LatentAttention, Model, MoE, Recurrent

HIDDEN = 10


def model(*blocks: Block, **more: object) -> Model:
    return Model(name="test", hidden=HIDDEN, vocab=7, blocks=blocks, **more)


# ------------------------------------------------------------------------------------------------ attention


def test_grouped_attention_by_hand():
    mixer = Attention(heads=4, kv_heads=2, head_dim=3, value_dim=5, other_params=11)
    # queries 10·4·3, keys 10·2·3, values 10·2·5, output 4·5·10
    assert mixer.matmul_params(HIDDEN) == 120 + 60 + 100 + 200
    assert mixer.params(HIDDEN) == 480 + 11
    assert mixer.kv_elements() == 2 * (3 + 5)
    assert mixer.state_elements() == 0


@pytest.mark.parametrize(
    "change, weights, cached",
    [
        ({"gate": True}, 480 + 120, 16),  # as many gates as queries
        ({"query_rank": 2}, 480 - 120 + 10 * 2 + 2 * 12, 16),
        ({"input_width": 20}, 2 * (120 + 60 + 100) + 200, 16),
        ({"shares_kv": True}, 120 + 200, 0),
        ({"keys_are_values": True}, 480 - 100, 16),
        ({"keys_are_values": True, "one_cache": True}, 480 - 100, 2 * 3),
        ({"cross": True}, 480, 0),
        ({"output_rank": 3, "output_groups": 2}, 480 - 200 + 20 * 3 + 2 * 3 * 10, 16),
    ],
)
def test_variants_of_attention_by_hand(change: dict, weights: int, cached: int):
    mixer = msgspec.structs.replace(Attention(heads=4, kv_heads=2, head_dim=3, value_dim=5), **change)
    assert mixer.matmul_params(HIDDEN) == weights
    assert mixer.kv_elements() == cached


def test_latent_attention_by_hand():
    mixer = LatentAttention(heads=4, query_rank=6, kv_rank=8, nope_dim=3, rope_dim=2, value_dim=5, other_params=14)
    # queries 10·6 + 6·4·5, down 10·(8 + 2), up 8·4·(3 + 5), output 4·5·10
    assert mixer.matmul_params(HIDDEN) == 60 + 120 + 100 + 256 + 200
    assert mixer.params(HIDDEN) == 736 + 14
    assert mixer.kv_elements() == 8 + 2  # one latent and one rotary key for all heads


def test_an_indexer_by_hand():
    index = Indexer(heads=2, head_dim=3, topk=4, query_width=6, other_params=6)
    assert index.matmul_params(HIDDEN) == 6 * 2 * 3 + 10 * (3 + 2)  # queries; one key and a weight a head
    assert index.params(HIDDEN) == 86 + 6
    assert msgspec.structs.replace(index, weighted=False).matmul_params(HIDDEN) == 36 + 30
    shared = msgspec.structs.replace(index, owns_keys=False)
    assert shared.params(HIDDEN) == 0
    own = Attention(heads=4, kv_heads=2, head_dim=3, value_dim=5, indexer=index)
    assert own.params(HIDDEN) == 480 + 92
    assert own.index_elements() == 3
    assert msgspec.structs.replace(own, indexer=shared).index_elements() == 0


def test_a_recurrence_by_hand():
    mixer = Recurrent(
        form="mamba2", heads=2, key_dim=3, value_dim=4, in_width=21, out_width=8, inner_params=5, conv_channels=14, conv_kernel=4,
        other_params=70,
    )  # fmt: skip
    assert mixer.params(HIDDEN) == 10 * 21 + 8 * 10 + 5 + 70
    assert mixer.state_elements() == 2 * 3 * 4 + 14 * 4
    assert mixer.kv_elements() == 0


# ------------------------------------------------------------------------------------------------ feed-forwards


def test_a_dense_network_by_hand():
    assert Dense(width=6).params(HIDDEN) == 3 * 10 * 6
    assert Dense(width=6, gated=False, other_params=16).params(HIDDEN) == 2 * 10 * 6 + 16


def test_experts_by_hand():
    experts = MoE(experts=8, topk=2, width=6, shared_width=4, other_params=10, router_other_params=8)
    always = 3 * 10 * 4 + 10 * 8 + 8 + 10  # shared network, router, its biases, a gate
    assert experts.params(HIDDEN) == 8 * 180 + always
    assert experts.active_params(HIDDEN) == 2 * 180 + always
    behind = MoE(experts=8, topk=2, width=6, gated=False, latent=5)
    assert behind.params(HIDDEN) == 8 * 2 * 5 * 6 + 10 * 8 + 2 * 10 * 5


@given(st.integers(1, 64), st.integers(1, 100), st.booleans())
def test_one_expert_that_is_always_chosen_is_a_dense_network(hidden: int, width: int, gated: bool):
    """A-038: a mixture of one is dense, but for its router."""
    one = MoE(experts=1, topk=1, width=width, gated=gated)
    assert one.params(hidden) == one.active_params(hidden) == Dense(width=width, gated=gated).params(hidden) + hidden


# ------------------------------------------------------------------------------------------------ blocks and models


def test_a_model_by_hand():
    mixer = Attention(heads=4, kv_heads=2, head_dim=3, value_dim=5)
    found = model(Block(count=3, mixer=mixer, ffn=Dense(width=6), norm_params=20, other_params=1), other_params=10)
    assert found.params() == 3 * (480 + 180 + 20 + 1) + 2 * 70 + 10
    assert found.active_params_without_embedding() == found.params() - 70
    tied = msgspec.structs.replace(found, tied=True)
    assert tied.params() == found.params() - 70
    assert tied.active_params_without_embedding() == tied.params()  # the head still multiplies by the table
    looked_up = msgspec.structs.replace(found, lookup_params=33)
    assert looked_up.params() == found.params() + 33
    assert looked_up.active_params_without_embedding() == found.active_params_without_embedding()
    assert msgspec.structs.replace(found, embedding_width=4, head_params=0).embedding_params() == 28
    assert found.layers == 3


def test_layers_of_two_blocks_are_counted_once():
    mixer = Attention(heads=4, kv_heads=2, head_dim=3, value_dim=5)
    first, second = Block(count=5, mixer=mixer, ffn=None), Block(count=5, mixer=mixer, ffn=Dense(width=6), half=True)
    both = model(first, second)
    assert both.layers == 5
    assert both.params() == 5 * (480 + 480 + 180) + 2 * 70
    assert both.kv_elements(3.0) == 2 * 5 * 16 * 3


def test_layers_that_share_weights_keep_them_once_and_their_caches_each():
    mixer = Attention(heads=4, kv_heads=2, head_dim=3, value_dim=5)
    found = model(Block(count=6, mixer=mixer, ffn=None, stored=2))
    assert found.params() == 2 * 480 + 2 * 70
    assert found.kv_elements(1.0) == 6 * 16


def test_windows_and_compression_by_hand():
    mixer = Attention(heads=4, kv_heads=2, head_dim=3, value_dim=5, window=8)
    windowed = model(Block(count=2, mixer=mixer, ffn=None))
    assert [windowed.kv_elements(float(n)) for n in (0, 4, 8, 100)] == [0, 2 * 16 * 4, 2 * 16 * 8, 2 * 16 * 8]
    index = Indexer(heads=2, head_dim=3, topk=4, query_width=6)
    squeezed = msgspec.structs.replace(mixer, compression=4, indexer=index, keys_are_values=True, one_cache=True)
    found = model(Block(count=2, mixer=squeezed, ffn=None))
    assert found.kv_elements(103.0) == 2 * 6 * (8 + 25)  # the window, and 25 whole groups of four
    assert found.index_elements(103.0) == 2 * 3 * 25
    assert found.index_layers() == 2


@given(st.integers(0, 64), st.integers(0, 16), st.booleans())
def test_arrays_and_numbers_agree(window: int, compression: int, indexed: bool):
    index = Indexer(heads=2, head_dim=3, topk=4, query_width=6) if indexed else None
    mixer = Attention(
        heads=4, kv_heads=2, head_dim=3, value_dim=5, window=window, compression=compression, indexer=index
    )
    found = model(Block(count=2, mixer=mixer, ffn=None))
    contexts = np.array([0.0, 1.0, 7.0, 64.0, 65.0, 1000.0])
    for count in (found.kv_elements, found.index_elements):
        several = count(contexts) + 0 * contexts
        assert several.tolist() == [count(float(context)) for context in contexts]
        assert all(a <= b for a, b in pairwise(several))


def test_values_are_frozen_and_round_trip():
    found = model(Block(count=1, mixer=Attention(heads=1, kv_heads=1, head_dim=2, value_dim=2), ffn=Dense(width=3)))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Model) == found
    with pytest.raises(AttributeError):
        found.hidden = 3  # type: ignore[misc]
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"name": "x", "hidden": 1, "vocab": 1, "blocks": [], "colour": "red"}, Model)
