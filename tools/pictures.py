"""Draw the pictures of the documents from real output: a terminal, and a roofline.

python tools/pictures.py            write them
python tools/pictures.py --check    exit 1 when one is not up to date

They hold no fonts and load none; each is drawn once for light and once for dark pages.
"""

import io
import math
import sys
from html import escape
from pathlib import Path
from typing import Any

from rich.terminal_theme import TerminalTheme

from rooflab.api import answer
from rooflab.cli import terminal
from rooflab.show import page
from rooflab.units import format as shown

FOLDER = Path(__file__).resolve().parent.parent / "docs/pictures"
COLUMNS = 84
ESTIMATE = {"kind": "estimate", "model": "llama-3.1-8b", "on": "h100-sxm", "batch": 32, "prompt": 1024, "output": 256}
COMMAND = "rooflab estimate llama-3.1-8b --on h100-sxm --batch 32 --prompt 1024 --output 256"
STEP = {"kind": "step", "model": "llama-3.1-8b", "on": "h100-sxm", "batch": 32}
ANSI = [(0, 0, 0), (128, 0, 0), (0, 128, 0), (128, 128, 0), (0, 0, 128), (128, 0, 128), (0, 128, 128), (192, 192, 192)]
THEMES = {
    "light": TerminalTheme((255, 255, 255), (31, 35, 40), ANSI, ANSI),
    "dark": TerminalTheme((13, 17, 23), (225, 228, 232), ANSI, ANSI),
}
MONO = "ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace"
SANS = "system-ui,-apple-system,Segoe UI,DejaVu Sans,sans-serif"
FRAME = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>.{unique_id}-matrix{{font-family:MONO;font-size:{char_height}px;line-height:{line_height}px}}
{styles}</style>
<defs><clipPath id="{unique_id}-clip-terminal"><rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/></clipPath>
{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g></svg>
""".replace("MONO", MONO)


def screen(theme: str) -> str:
    """The terminal after the first command of the README."""
    console = terminal.console(io.StringIO(), COLUMNS, colour=True)
    console.record = True
    console.print(f"$ {COMMAND}", style="bold", soft_wrap=True)
    console.print()
    console.print(terminal.rendered(page(answer(ESTIMATE)), console))
    return console.export_svg(title="", theme=THEMES[theme], code_format=FRAME, unique_id=f"t{theme}")


# ------------------------------------------------------------------------------------------------------- a roofline

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 960, 520, 92, 24, 64, 64
INTENSITIES, RATES = (0.3, 20000.0), (1e11, 2e15)
COLOURS = {"compute": "#0087ff", "weight": "#d78700", "kv": "#af5faf", "activation": "#008787", "overhead": "#8a8a8a"}
WORDS = {"compute": "compute", "weight": "reading weights", "kv": "reading the cache", "activation": "activations",
         "overhead": "launch overhead"}  # fmt: skip
PAPER = {"light": ("#ffffff", "#1f2328", "#d0d7de"), "dark": ("#0d1117", "#e1e4e8", "#30363d")}


def _x(intensity: float) -> float:
    low, high = (math.log(end) for end in INTENSITIES)
    return LEFT + (math.log(intensity) - low) / (high - low) * (WIDTH - LEFT - RIGHT)


def _y(rate: float) -> float:
    low, high = (math.log(end) for end in RATES)
    return HEIGHT - BOTTOM - (math.log(rate) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)


def roofline(theme: str) -> str:
    """Every operator of a decode and of a prefill step under the roofs of the device; area is share of the time."""
    paper, ink, rule = PAPER[theme]
    decode, prefill = (answer({**STEP, "phase": phase, "context": 1024}) for phase in ("decode", "prefill"))
    parts = [
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" xmlns="http://www.w3.org/2000/svg" font-family="{SANS}" font-size="14">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{paper}" rx="6"/>',
        *_grid(ink, rule),
        *_roofs(decode["roofs"], ink),
        *(dot for report, hollow in ((prefill, True), (decode, False)) for dot in _dots(report, hollow)),
        *_labels(prefill, ink),
        *_labels(decode, ink),
        *_legend(ink),
        _text(
            LEFT, 28, "Llama-3.1-8B on H100 SXM, batch 32, 1,024 tokens: every operator under its roof", ink, 16, "bold"
        ),
        "</svg>\n",
    ]
    return "\n".join(parts)


def _text(
    x: float, y: float, words: str, ink: str, size: int = 13, weight: str = "normal", anchor: str = "start"
) -> str:
    look = f'fill="{ink}" font-size="{size}" font-weight="{weight}" text-anchor="{anchor}"'
    return f'<text x="{x:.1f}" y="{y:.1f}" {look}>{escape(words)}</text>'


def _grid(ink: str, rule: str) -> list[str]:
    parts = []
    for power in range(5):
        x = _x(10.0**power)
        parts.append(f'<path d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="{rule}"/>')
        parts.append(_text(x, HEIGHT - BOTTOM + 20, f"{10**power:,}", ink, anchor="middle"))
    for power in range(11, 16):
        y = _y(10.0**power)
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="{rule}"/>')
        parts.append(_text(LEFT - 8, y + 4, shown(10.0**power, "FLOP/s", 1).removesuffix("FLOP/s"), ink, anchor="end"))
    parts.append(
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 18, "arithmetic intensity, FLOP/byte", ink, anchor="middle")
    )
    parts.append(_text(16, TOP - 12, "achieved, FLOP/s", ink))
    return parts


def _roofs(roofs: dict[str, Any], ink: str) -> list[str]:
    """Peak roofs as lines, achievable ones dashed."""
    parts = []
    for width, rate, dash in (
        (roofs["memory_bandwidth"], roofs["flop_rate"]["bf16"], ""),
        (roofs["achievable_bandwidth"], roofs["achievable_flop_rate"]["bf16"], ' stroke-dasharray="6 5"'),
    ):
        ridge, first = rate / width, RATES[0] / width
        path = f"M{_x(max(first, INTENSITIES[0])):.1f} {_y(max(RATES[0], INTENSITIES[0] * width)):.1f}"
        path += f"L{_x(ridge):.1f} {_y(rate):.1f}H{WIDTH - RIGHT}"
        parts.append(f'<path d="{path}" fill="none" stroke="{ink}" stroke-width="1.6"{dash}/>')
    peak = f"{shown(roofs['flop_rate']['bf16'], 'FLOP/s')} bf16, dashed: achievable"
    parts.append(_text(WIDTH - RIGHT, _y(roofs["flop_rate"]["bf16"]) - 9, peak, ink, anchor="end"))
    parts.append(
        _text(_x(14), _y(16 * roofs["memory_bandwidth"]), shown(roofs["memory_bandwidth"], "byte/s"), ink, anchor="end")
    )
    return parts


def _dots(report: dict[str, Any], hollow: bool) -> list[str]:
    parts = []
    for op in _ranked(report):
        x, y, radius = _place(op)
        colour = COLOURS.get(op["bound"], COLOURS["overhead"])
        fill = "none" if hollow else colour
        title = escape(f"{report['phase']} {op['name']}: {op['share']:.0%} of {shown(report['time'], 's')}")
        look = f'fill="{fill}" fill-opacity="0.55" stroke="{colour}" stroke-width="2"'
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" {look}><title>{title}</title></circle>')
    return parts


def _ranked(report: dict[str, Any]) -> list[dict[str, Any]]:
    return sorted((op for op in report["ops"] if op["intensity"] and op["achieved"]), key=lambda op: -op["share"])


def _place(op: dict[str, Any]) -> tuple[float, float, float]:
    """Where an operator's dot lies, and its radius."""
    return _x(op["intensity"]), _y(max(op["achieved"], RATES[0])), max(3.0, 36.0 * math.sqrt(op["share"]))


def _labels(report: dict[str, Any], ink: str) -> list[str]:
    """The name of the slowest operator of each kind, below its dot."""
    parts, seen = [], set()
    for op in _ranked(report):
        if op["bound"] not in seen and op["share"] > 0.02:
            x, y, radius = _place(op)
            words = f"{report['phase']} {op['name'].partition('_decode')[0]} {op['share']:.0%}"
            side = (x + radius + 6, y + 5, "start") if x < WIDTH / 2 else (x, y + radius + 18, "middle")
            parts.append(_text(side[0], side[1], words, ink, anchor=side[2]))
        seen.add(op["bound"])
    return parts


def _legend(ink: str) -> list[str]:
    parts, x, y = [], 250.0, TOP - 12.0
    for bound, colour in COLOURS.items():
        parts.append(f'<circle cx="{x}" cy="{y - 4}" r="6" fill="{colour}"/>')
        parts.append(_text(x + 11, y, WORDS[bound], ink))
        x += 11 + 6.8 * len(WORDS[bound]) + 26
    words = "filled: decode, hollow: prefill; area: share of the step"
    parts.append(_text(WIDTH - RIGHT - 6, HEIGHT - BOTTOM - 12, words, ink, anchor="end"))
    return parts


def pictures() -> dict[Path, str]:
    """File → its content."""
    drawn = {}
    for theme in THEMES:
        drawn[FOLDER / f"estimate-{theme}.svg"] = screen(theme)
        drawn[FOLDER / f"roofline-{theme}.svg"] = roofline(theme)
    return drawn


def main(args: list[str]) -> int:
    stale = [path for path, text in pictures().items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    if "--check" in args:
        for path in stale:
            print(f"{path.name} is not up to date: run python tools/pictures.py", file=sys.stderr)
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, text in pictures().items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
