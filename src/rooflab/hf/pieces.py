"""Pieces that towers for images and sound are made of, counted."""

from __future__ import annotations

from rooflab.hf.keys import Keys


def linear(rows: int, columns: int, bias: bool = True) -> int:
    """Parameters of one linear layer."""
    return rows * columns + (columns if bias else 0)


def layer(
    hidden: int, width: int, *, norm: int = 2, bias: bool = True, mlp_bias: bool = True, gated: bool = False
) -> int:
    """Parameters of one plain vision layer; `norm` is 2 for a norm with bias and 1 without."""
    attention = 4 * linear(hidden, hidden, bias)
    mlp = (2 if gated else 1) * linear(hidden, width, mlp_bias) + linear(width, hidden, mlp_bias)
    return attention + mlp + 2 * norm * hidden


def sizes(v: Keys) -> tuple[int, int, int]:
    """Hidden size, width and layers."""
    hidden = v.count("hidden_size", limit="hidden")
    return hidden, v.count("intermediate_size"), v.count("num_hidden_layers", "depth", limit="layers")


def patches(v: Keys) -> int:
    """Patches of one image."""
    patch = v.count("patch_size", limit="small")
    return (v.count("image_size", limit="width") // patch) ** 2


def patch_embedding(v: Keys, hidden: int, *, bias: bool, frames: int = 1) -> int:
    """The convolution that turns patches into vectors."""
    channels = v.count("num_channels", "in_channels", "in_chans", limit="small", default=3)
    return channels * frames * v.count("patch_size", limit="small") ** 2 * hidden + (hidden if bias else 0)
