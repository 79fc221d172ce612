"""Parameters of towers for sound with their projectors, by the model type around them."""

from __future__ import annotations

from collections.abc import Callable

from rooflab.hf.keys import Keys
from rooflab.hf.pieces import layer, linear
from rooflab.model import Model


def _sizes(a: Keys) -> tuple[int, int, int]:
    """Hidden size, width and layers."""
    hidden = a.count("d_model", "hidden_size", limit="hidden")
    width = a.count("encoder_ffn_dim", "intermediate_size")
    return hidden, width, a.count("encoder_layers", "num_hidden_layers", limit="layers")


def _whisper(a: Keys, positions: bool) -> int:
    """Whisper's encoder: two convolutions, positions or none, layers whose keys have no bias."""
    hidden, width, layers = _sizes(a)
    waves = 3 * a.count("num_mel_bins", limit="small") * hidden + hidden + 3 * hidden * hidden + hidden
    rows = a.count("max_source_positions", limit="width") if positions else 0
    return waves + rows * hidden + layers * (layer(hidden, width) - hidden) + 2 * hidden


def _voxtral(a: Keys, outer: Keys, model: Model) -> int:
    projector = a.count("intermediate_size") * model.hidden + model.hidden * model.hidden
    return _whisper(a, positions=True) + projector


def _qwen2_audio(a: Keys, outer: Keys, model: Model) -> int:
    return _whisper(a, positions=True) + linear(_sizes(a)[0], model.hidden)


def _qwen2_5_omni(a: Keys, outer: Keys, model: Model) -> int:
    out = a.count("output_dim", limit="hidden")
    return _whisper(a, positions=False) + 2 * out + linear(_sizes(a)[0], out)


def _qwen3_omni(a: Keys, outer: Keys, model: Model) -> int:
    hidden, width, layers = _sizes(a)
    channels, rows = a.count("downsample_hidden_size", limit="width"), a.count("num_mel_bins", limit="small")
    for _ in range(3):  # three convolutions halve the bands
        rows = (rows + 1) // 2
    waves = 9 * channels + channels + 2 * (9 * channels * channels + channels) + rows * channels * hidden
    projector = linear(hidden, hidden) + linear(hidden, a.count("output_dim", limit="hidden"))
    return waves + layers * layer(hidden, width) + 2 * hidden + projector


AUDIO: dict[str, Callable[[Keys, Keys, Model], int]] = {
    "voxtral": _voxtral,
    "qwen2_audio": _qwen2_audio,
    "qwen2_5_omni_thinker": _qwen2_5_omni,
    "qwen3_omni_moe_thinker": _qwen3_omni,
    "qwen3_asr": _qwen3_omni,
}
"""Model type around a tower → its function."""
