"""Whole steps of a model with random weights, built from its config by transformers: a prefill and a decode step.

A decode step appends to a cache of fixed size, so that a graph can hold it; where a model's code waits for the host, it is
launched kernel by kernel and the row says so.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from rooflab.measure.bench import package
from rooflab.measure.depths import Stack
from rooflab.measure.plan_of import Case
from rooflab.measure.taking import Taken, Unsupported

LENGTH = "cumulative_length"
"""Part of the names under which layers of newer caches count their entries."""
PIECE = 4096
"""Tokens of all sequences that fill the cache at once."""


class Models:
    """The shallow models of some stacks; one is kept at a time."""

    def __init__(self, stacks: Sequence[Stack]):
        self.transformers = package("transformers")
        self.configs = {stack.named(depth): stack.configs[depth] for stack in stacks for depth in stack.depths}
        self.built: tuple[str, Any] | None = None

    @property
    def version(self) -> str:
        """Of transformers."""
        return self.transformers.__version__

    def model(self, name: str, torch: Any, place: str) -> Any:
        """A model by the name of its config, its weights random.

        Raises Unsupported where transformers has no code for it.
        """
        if self.built is not None and self.built[0] == name:
            return self.built[1]
        self.built = None
        config = dict(self.configs[name])
        half = getattr(torch, config.pop("torch_dtype"))
        kind = config.pop("model_type", "")
        config.pop("architectures", None)
        try:
            made = self.transformers.AutoConfig.for_model(kind, **config)
            with torch.device(place):
                model = self._from(made, half)
        except (ValueError, KeyError, AttributeError, TypeError) as problem:
            why = " ".join(str(problem).split())[:120]
            raise Unsupported(f"transformers cannot build model_type {kind!r}: {why}") from None
        model = model.to(place).eval()
        self.built = (name, model)
        return model

    def _from(self, config: Any, half: Any) -> Any:
        auto = self.transformers.AutoModelForCausalLM
        try:
            return auto.from_config(config, dtype=half)
        except TypeError:  # the keyword's older name
            return auto.from_config(config, torch_dtype=half)

    def measure(self, case: Case, budget: float, device: Any) -> Taken:
        """Time one prefill and one decode step over the prompt's cache."""
        torch, columns = device.torch, case.columns
        model = self.model(columns["model"], torch, device.place)
        batch, prompt = int(columns["batch_size"]), int(columns["isl"])
        tokens = torch.randint(0, model.config.vocab_size, (batch, prompt), device=device.place)
        with torch.inference_mode():
            prefill, _ = device.clock.samples(
                [lambda: model(input_ids=tokens, use_cache=False, logits_to_keep=1)], budget
            )
            step = self._decode(model, tokens, torch)
            decode, graph = device.clock.samples([step], budget)
        return Taken(samples={"prefill": prefill, "decode": decode}, graph=graph)

    def _decode(self, model: Any, tokens: Any, torch: Any) -> Any:
        """One step over a cache that holds the prompt; it writes its own entry again and again."""
        batch, prompt = tokens.shape
        cache = self.cache(model, prompt + 1, batch, tokens.device)
        size = max(1, PIECE // batch)
        for start in range(0, prompt, size):
            piece = tokens[:, start : start + size]
            places = torch.arange(start, start + piece.shape[1], device=tokens.device)
            self._call(model, piece, cache, places)
        last = tokens[:, -1:].clone()
        place = torch.tensor([prompt], device=tokens.device)
        held = [
            (layer, name, value.clone() if hasattr(value, "clone") else value)
            for layer in getattr(cache, "layers", ())
            for name, value in vars(layer).items()
            if LENGTH in name and value is not None
        ]

        def step() -> Any:
            for layer, name, value in held:
                if hasattr(value, "clone"):
                    getattr(layer, name).copy_(value)
                else:
                    setattr(layer, name, value)
            return self._call(model, last, cache, place)

        return step

    def _call(self, model: Any, tokens: Any, cache: Any, places: Any) -> Any:
        name = "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"
        more = {name: cache, "cache_position": places, "position_ids": places.unsqueeze(0).expand(tokens.shape[0], -1)}
        return model(input_ids=tokens, use_cache=True, logits_to_keep=1, **more)

    def cache(self, model: Any, length: int, batch: int, place: Any) -> Any:
        """A cache of fixed size; its arguments differ between versions of transformers."""
        static = self.transformers.StaticCache
        try:
            return static(config=model.config, max_cache_len=length)
        except TypeError:
            return static(
                config=model.config, max_batch_size=batch, max_cache_len=length, device=place, dtype=model.dtype
            )
