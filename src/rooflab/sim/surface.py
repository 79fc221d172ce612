"""The time of one iteration of the engine: the estimate's own prices, on a grid, in ticks.

A surface answers two questions. `segment(batch, total)`: for a decode iteration of `batch` sequences that attend to `total`
tokens together, the line a + b × total that holds up to an end; so iterations of a constant batch sum in closed form.
`mixed(batch, total, chunks)`: the ticks of an iteration that also computes prompt chunks of (tokens, cached tokens).
"""

from __future__ import annotations

from bisect import bisect_right
from typing import Protocol

import msgspec

from rooflab.estimate import Scene, breakpoints
from rooflab.loaded import Engine
from rooflab.price import rates_of
from rooflab.sim.clock import FINEST, ticks
from rooflab.work import Op, Step

Segment = tuple[int, int, int]
ENDLESS = 1 << 80
"""End of the last segment."""
_STRIDE = 128
_SINGLY = 512
"""Batches up to here are priced one by one, so the steps of tiles are kept."""


class StepSurface(Protocol):
    """Anything that prices an iteration in ticks; every answer is at least one tick."""

    bits: int

    def segment(self, batch: int, total: int) -> Segment:
        """(a, b, end): a decode iteration takes a + b × total ticks while total stays below end; b is not negative."""
        ...

    def mixed(self, batch: int, total: int, chunks: list[tuple[int, int]]) -> int:
        """Ticks of an iteration of `batch` decoding sequences and prompt chunks of (new tokens, cached tokens)."""
        ...


class Speculation(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Drafted tokens per step and the chance that one is accepted, each independently of the others."""

    draft_tokens: int
    acceptance: float
    draft_cost: float = 0.05
    """Share of a decode step that drafting one token takes (assumed; a separate draft model costs more)."""

    def tokens_per_step(self) -> float:
        """Mean tokens a verification yields: 1 + α + … + α^k."""
        total, power = 1.0, 1.0
        for _ in range(self.draft_tokens):
            power *= self.acceptance
            total += power
        return total


class HostWork(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an engine's host adds to its kernels, in seconds: the constants that a closed-form loop counts as well."""

    step: float = 0.0
    """Of an iteration."""
    sequence: float = 0.0
    """Of each sequence in an iteration."""
    request: float = 0.0
    """Of each prompt, in the iteration that begins it."""

    @classmethod
    def of(cls, made: Engine, together: int = 1) -> HostWork:
        """An engine's; `together` replicas, priced as one, have a host each."""
        return cls(
            step=float(made.step), sequence=float(made.sequence) / together, request=float(made.request) / together
        )

    def iteration(self, sequences: int) -> float:
        """Seconds of an iteration of so many sequences."""
        return self.step + self.sequence * sequences


class LineSurface:
    """A surface written as one line, for theory and for teaching: fixed + batch + context terms, prompts by the token."""

    def __init__(
        self,
        fixed: float,
        per_sequence: float = 0.0,
        per_context: float = 0.0,
        per_prompt_token: float = 0.0,
        bits: int = FINEST,
    ):
        self.bits = bits
        self._fixed, self._sequence = ticks(fixed, bits), ticks(per_sequence, bits)
        self._context, self._prompt = ticks(per_context, bits), ticks(per_prompt_token, bits)

    @property
    def terms(self) -> tuple[int, int, int, int]:
        """Ticks of an iteration, and of each sequence, token of context and prompt token."""
        return self._fixed, self._sequence, self._context, self._prompt

    def segment(self, batch: int, total: int) -> Segment:
        return (self._fixed + self._sequence * batch, self._context, ENDLESS)

    def mixed(self, batch: int, total: int, chunks: list[tuple[int, int]]) -> int:
        tokens = 0
        for new, _ in chunks:
            tokens += new
        sequences = batch + len(chunks)
        return self._fixed + self._sequence * sequences + self._context * total + self._prompt * tokens


def _between(low: float, high: float, share: float) -> float:
    return low + (high - low) * share


class SceneSurface:
    """The surface of a scene; grid values are priced when first met and kept.

    Decode: batches are priced one by one up to 512 and on 16 lines per octave above, straight between them; contexts on one
    line per octave and at the model's own break points (windows, sparse selections), straight between them in the total context
    (sequences of unequal context count as their mean). Prompt chunks: everything but attention at the exact number of tokens
    in the iteration, so tile steps are kept; attention on eight lines per octave of new and of cached tokens.
    Parts are added. That is exact where a profile prices the attention of prompts and of decoding apart; where one operator
    holds both (sharded, classroom) their compute and memory do not overlap here, so mixed iterations take up to a fifth
    longer. A profile that prices a whole step at once (envelope) has its attention taken as what context adds.
    The engine's host work is in whatever an iteration has once: an iteration that decodes and computes prompts counts it once.
    """

    def __init__(
        self, scene: Scene, bits: int = FINEST, speculation: Speculation | None = None, host: HostWork | None = None
    ):
        self.bits, self.scene, self.speculation, self.host = bits, scene, speculation, host or HostWork()
        self._rates = rates_of(scene.profile, scene.system.device.launch_time)["mid"]
        self._whole = scene.profile.group == "step"
        knots = {float(2**power) for power in range(5, 24)} | set(breakpoints(scene.model))
        self.knots = sorted(int(knot) for knot in knots)
        self._segments: dict[int, Segment] = {}
        self._decode: dict[tuple[int, int], float] = {}
        self._rest: dict[int, int] = {}
        self._rest_decode: dict[int, int] = {}
        self._attention: dict[tuple[int, int], float] = {}
        self._chunks: dict[tuple[int, int], int] = {}
        self._groups = int(scene.layout.attention_dp)

    # ------------------------------------------------------------------ prices in seconds

    def _time(self, operators: list[Op]) -> float:
        return float(self.scene.time(operators, self._rates).time)

    def _split(self, step: Step) -> tuple[float, float]:
        """Seconds of a step's attention and of the rest."""
        operators = self.scene.operators(step)
        if self._whole:
            return 0.0, self._time(operators)
        attention = [op for op in operators if op.part == "attention"]
        rest = [op for op in operators if op.part != "attention"]
        return self._time(attention) - float(self._rates.pass_time), self._time(rest)

    def _decode_at(self, batch: int, context: int) -> float:
        """Seconds of a decode iteration at a line of the grid of batches."""
        found = self._decode.get((batch, context))
        if found is None:
            step = Step(decode_sequences=batch, decode_context=context)
            found = self._time(self.scene.operators(step))
            if self.speculation is not None:
                found = self._speculative(batch, context, found)
            self._decode[batch, context] = found
        return found

    def _speculative(self, batch: int, context: int, plain: float) -> float:
        """Seconds per token of drafting and verifying instead of decoding, at the mean acceptance."""
        used = self.speculation
        assert used is not None
        rows = batch * (1 + used.draft_tokens)
        more = self._split(Step(decode_sequences=rows, decode_context=1))[1]
        more -= self._split(Step(decode_sequences=batch, decode_context=1))[1]
        return (plain * (1.0 + used.draft_cost * used.draft_tokens) + more) / used.tokens_per_step()

    def _decode_time(self, batch: int, context: int) -> float:
        if batch <= _SINGLY:
            return self._decode_at(batch, context)
        line = 1 << (batch.bit_length() - 5)
        low = batch - batch % line
        if low == batch:
            return self._decode_at(batch, context)
        share = (batch - low) / line
        return _between(self._decode_at(low, context), self._decode_at(low + line, context), share)

    # ------------------------------------------------------------------ decode

    def segment(self, batch: int, total: int) -> Segment:
        index = bisect_right(self.knots, total // batch)
        found = self._segments.get(batch * _STRIDE + index)
        return found if found is not None else self.segment_at(batch, index)

    def segment_at(self, batch: int, index: int) -> Segment:
        """The line before the knot of this index of the mean context; beyond the last knot the last line goes on."""
        knots = self.knots
        last = index >= len(knots)
        high = knots[-1] if last else knots[index]
        low = knots[-2] if last else (knots[index - 1] if index else 1)
        start, end = self._decode_time(batch, low), self._decode_time(batch, high)
        slope = max(0.0, (end - start) / (batch * (high - low)))
        b = ticks(slope, self.bits)
        a = max(1, ticks(start, self.bits) - b * batch * low) + self._host_ticks(batch)
        found = (a, b, ENDLESS if last else batch * high)
        self._segments[batch * _STRIDE + index] = found
        return found

    def _host_ticks(self, sequences: int) -> int:
        """Ticks of the host's work on an iteration, spread over the tokens that drafting makes of one."""
        steps = 1.0 if self.speculation is None else self.speculation.tokens_per_step()
        return ticks(self.host.iteration(sequences) / steps, self.bits)

    # ------------------------------------------------------------------ prompts

    def rest_of(self, tokens: int) -> int:
        """Ticks of everything but attention for prompt tokens, one row at the output head, and of the host's work on that row."""
        found = self._rest.get(tokens)
        if found is None:
            spread = -(-tokens // self._groups)
            step = Step(prefill_sequences=self._groups, prefill_tokens=spread)
            found = self._rest[tokens] = ticks(self._split(step)[1], self.bits) + self._host_ticks(1)
        return found

    def rest_of_decode(self, batch: int) -> int:
        """Ticks of everything but attention for decoding sequences, each a row at the output head, and of the host's work."""
        found = self._rest_decode.get(batch)
        if found is None:
            step = Step(decode_sequences=batch, decode_context=1)
            found = self._rest_decode[batch] = ticks(self._split(step)[1], self.bits) + self._host_ticks(batch)
        return found

    def attention_at(self, new: int, cached: int) -> float:
        """Seconds of one chunk's attention, and of whatever else its cache costs, at a node of the grid."""
        found = self._attention.get((new, cached))
        if found is None:
            step = Step(prefill_sequences=1, prefill_tokens=new, prefill_context=cached)
            found, rest = self._split(step)
            if cached:  # what else grows with the cache: a latent's expansion, or all of it where nothing is apart
                found += rest - self._split(Step(prefill_sequences=1, prefill_tokens=new))[1]
            elif new > 1:  # the node of one token stands for the launch that chunks share
                found += self.host.request
            self._attention[new, cached] = found
        return found

    def _attention_of(self, chunk: tuple[int, int]) -> int:
        """Ticks of one chunk's attention, interpolated in new and cached tokens."""
        found = self._chunks.get(chunk)
        if found is None:
            new, cached = chunk
            n0, n1 = _lines(new)
            c0, c1 = _lines(cached)
            x = (new - n0) / (n1 - n0) if n1 > n0 else 0.0
            y = (cached - c0) / (c1 - c0) if c1 > c0 else 0.0
            low = self.attention_at(n0, c0) if not y else _between(
                self.attention_at(n0, c0), self.attention_at(n0, c1), y
            )  # fmt: skip
            if x:
                high = self.attention_at(n1, c0) if not y else _between(
                    self.attention_at(n1, c0), self.attention_at(n1, c1), y
                )  # fmt: skip
                low = _between(low, high, x)
            if len(self._chunks) > 1 << 18:
                self._chunks.clear()
            found = self._chunks[chunk] = ticks(low, self.bits)
        return found

    def mixed(self, batch: int, total: int, chunks: list[tuple[int, int]]) -> int:
        tokens = batch
        time = 0
        for chunk in chunks:
            tokens += chunk[0]
            time += self._attention_of(chunk)
        if len(chunks) > 1:  # one launch serves all chunks
            time -= (len(chunks) - 1) * self._attention_of((1, 0))
        time += self.rest_of(tokens)
        rows = batch + len(chunks)
        if rows > 1:
            time += self.rest_of_decode(rows) - self.rest_of(rows)
        if batch:
            a, b, _ = self.segment(batch, total)
            time += max(0, a + b * total - self.rest_of_decode(batch))
        return max(1, time)


def _lines(count: int) -> tuple[int, int]:
    """Neighbouring grid lines around a count: every whole number up to 16, then eight per octave."""
    if count <= 16:
        return count, count
    line = 1 << (count.bit_length() - 4)
    low = count - count % line
    return low, low if low == count else low + line
