"""The look of a report: the page's tokens, light and dark, and on paper."""

from __future__ import annotations

LIGHT = (
    "--bg:#f5f5f2;--surface:#fff;--sunken:#efeeea;--line:#e5e4df;--line2:#cfcdc6;--grid:#eeede9;--ink:#16181d;--ink2:#454b57;"
    "--ink3:#636a77;--ink4:#a3a9b3;--compute:#1f5fd0;--memory:#db7c00;--network:#a21e78;--latency:#8792a2;--weights:#a35200;"
    "--kv:#db7c00;--act:#f3bf74;--good:#0b7a55;--bad:#c2273a;--on-weights:#fff;--on-memory:#1d1200"
)
DARK = (
    "--bg:#0c0d10;--surface:#14161a;--sunken:#0f1114;--line:#252930;--line2:#3a404a;--grid:#1e2127;--ink:#eceef1;--ink2:#b9c0ca;"
    "--ink3:#8b94a3;--ink4:#565e6b;--compute:#3f83f8;--memory:#f7a823;--network:#db3f9b;--latency:#b3bcca;--weights:#c47300;"
    "--kv:#f7a823;--act:#f8d9a2;--good:#3ecf9a;--bad:#ff7a85;--on-weights:#14100a;--on-memory:#14100a"
)
STYLE = f"""
:root{{color-scheme:light dark;{LIGHT}}}
@media (prefers-color-scheme:dark){{:root{{{DARK}}}}}
@media print{{:root{{color-scheme:light;{LIGHT};--bg:#fff}}section{{break-inside:avoid}}section.long{{break-inside:auto}}
tr,li,figure{{break-inside:avoid}}
details::details-content{{content-visibility:visible;height:auto}}summary{{list-style:none}}nav{{display:none}}
body{{font-size:10pt}}main{{max-width:none;padding:0}}}}
*{{box-sizing:border-box}}
body{{margin:0;background:var(--bg);color:var(--ink);font:14px/1.5 Inter,system-ui,-apple-system,"Segoe UI",sans-serif;
font-variant-numeric:tabular-nums;-webkit-print-color-adjust:exact;print-color-adjust:exact}}
main{{max-width:900px;margin:0 auto;padding:32px 20px 56px;display:grid;gap:16px;grid-template-columns:minmax(0,1fr)}}
h1{{font-size:22px;line-height:1.3;letter-spacing:-.014em;margin:0;font-weight:600;text-wrap:pretty}}
h2{{font-size:14px;font-weight:650;margin:0 0 8px}}h3{{font-size:13px;font-weight:600;margin:14px 0 4px}}p{{margin:0 0 6px}}
.quiet{{color:var(--ink3);font-size:12.5px}}.good{{color:var(--good)}}.bad{{color:var(--bad)}}
section{{background:var(--surface);border:1px solid var(--line);border-radius:10px;padding:14px 16px;overflow-x:auto}}
.kpis{{display:grid;grid-template-columns:repeat(auto-fit,minmax(138px,1fr));gap:14px 18px;margin:0}}
.kpis.three{{grid-template-columns:repeat(auto-fit,minmax(200px,1fr));margin:10px 0}}table+table{{margin-top:14px}}
.kpis dt{{color:var(--ink3);font-size:12px}}.kpis dd{{margin:0;font-size:22px;font-weight:560;line-height:1.25}}
.kpis small{{display:block;font-size:11.5px;font-weight:400;color:var(--ink3)}}
table{{border-collapse:collapse;width:100%;font-size:12.5px}}
th{{font-weight:540;color:var(--ink3);text-align:left;font-size:11.5px}}
th,td{{padding:4px 12px 4px 0;border-bottom:1px solid var(--grid);vertical-align:top}}tr:last-child td{{border-bottom:0}}
th:last-child,td:last-child{{padding-right:0}}.n{{text-align:right;white-space:nowrap}}td.name{{font-weight:540}}
tr.group td{{color:var(--ink3);padding-top:10px}}td.best{{font-weight:650}}
code,pre{{font:12px/1.6 "JetBrains Mono",ui-monospace,"SF Mono",Menlo,monospace;overflow-wrap:anywhere}}
pre{{white-space:pre-wrap;background:var(--sunken);border-radius:6px;padding:10px 12px;margin:0 0 8px}}
ul{{margin:0;padding-left:18px}}.badge{{display:inline-block;border:1px solid var(--line2);border-radius:3px;padding:0 4px;
font-size:10.5px;color:var(--ink2);white-space:nowrap}}.badge.assumed{{border-style:dashed}}
.badge.measured{{background:var(--ink);color:var(--surface)}}.badge.speculative{{border:1px dotted var(--bad);color:var(--bad)}}
.key{{display:flex;gap:14px;flex-wrap:wrap;font-size:12px;color:var(--ink2);margin:0 0 4px}}
.key i{{display:inline-block;width:9px;height:9px;margin-right:5px}}
.bar{{display:block;width:160px;height:9px;background:var(--sunken)}}
.bar i{{display:inline-block;height:9px;vertical-align:top}}
i.compute{{background:var(--compute)}}i.memory{{background:var(--memory)}}i.network{{background:var(--network)}}
i.latency{{background:var(--latency)}}
svg.chart{{display:block;width:100%;height:auto;min-width:560px}}svg text{{font-size:11px;fill:var(--ink3)}}
svg .lab{{fill:var(--ink2);font-weight:540}}
svg .halo{{paint-order:stroke;stroke:var(--surface);stroke-width:3.5px;stroke-linejoin:round}}
svg path{{fill:none}}svg .grid{{stroke:var(--grid)}}svg .axis{{stroke:var(--line2)}}
svg .roof{{stroke:var(--ink);stroke-width:1.6}}
svg .roof.thin{{stroke:var(--line2)}}svg .peak{{stroke:var(--ink4);stroke-dasharray:1 3}}
svg .ridge{{stroke:var(--line2);stroke-dasharray:2 3}}
svg .leader{{stroke:var(--ink3);stroke-width:.8}}svg .mark{{fill-opacity:.62;stroke-width:1.4}}
svg .mark.compute{{fill:var(--compute);stroke:var(--compute)}}svg .mark.memory{{fill:var(--memory);stroke:var(--memory)}}
svg .mark.network{{fill:var(--network);stroke:var(--network)}}
svg .mark.latency{{fill:var(--surface);stroke:var(--latency);stroke-width:2}}
svg .room{{fill:var(--sunken)}}svg .kind.weights{{fill:var(--weights)}}svg .kind.kv{{fill:var(--kv)}}
svg .kind.workspace{{fill:var(--act);stroke:var(--memory)}}svg .kind.reserve{{fill:var(--line2)}}
svg .on.weights{{fill:var(--on-weights)}}svg .on.kv,svg .on.workspace{{fill:var(--on-memory)}}svg .on.reserve{{fill:var(--ink)}}
nav ul{{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:2px 16px;font-size:12.5px}}
a{{color:var(--ink2);text-underline-offset:3px}}
.pair{{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,330px),1fr));gap:12px 20px}}
figure{{margin:0;min-width:0}}figcaption{{font-size:12.5px;font-weight:540;color:var(--ink2);margin:0 0 4px}}
.pair,details{{margin:6px 0 0}}summary{{cursor:pointer;font-size:12.5px;color:var(--ink2);padding:4px 0}}
td code{{display:inline-block;min-width:200px}}td small{{color:var(--ink3);font-size:11.5px}}
.key i.weights{{background:var(--weights)}}.key i.kv{{background:var(--kv)}}
.key i.workspace{{background:var(--act)}}.key i.reserve{{background:var(--line2)}}
svg.curve{{min-width:300px}}svg .line{{stroke:var(--ink);stroke-width:2}}
svg .line.thin{{stroke:var(--ink3);stroke-width:1.3}}svg .line.compute{{stroke:var(--compute)}}
svg .line.memory,svg .line.kv{{stroke:var(--memory)}}svg .line.weights{{stroke:var(--weights)}}
.whole{{white-space:nowrap}}svg .dots{{stroke:var(--ink4);stroke-width:3;stroke-linecap:round;stroke-opacity:.6}}
svg .limit{{stroke:var(--bad);stroke-dasharray:5 3}}svg .labs{{fill:var(--ink);font-weight:650}}svg .bad{{fill:var(--bad)}}
svg .over{{fill:none;stroke:var(--bad);stroke-width:2}}
"""
