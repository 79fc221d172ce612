// A panel as a picture that needs nothing else: colours and fonts resolved, with its title, the finding and the scenario.

export interface Caption {
  title: string;
  /** Lines under the title. */
  lines: string[];
  /** One line at the foot. */
  foot: string;
}

const PROPERTIES: Record<string, string> = {
  fill: "rgb(0, 0, 0)", "fill-opacity": "1", stroke: "none", "stroke-width": "1px", "stroke-dasharray": "none", "stroke-linejoin": "miter", "stroke-linecap": "butt",
  "stroke-opacity": "1", opacity: "1", "paint-order": "normal", "font-family": "", "font-size": "", "font-weight": "400", "letter-spacing": "normal", "text-anchor": "start",
  "dominant-baseline": "auto", "clip-path": "none",
};
const KEEP = /^(d|x|y|x1|x2|y1|y2|cx|cy|r|rx|ry|width|height|points|viewBox|preserveAspectRatio|id|href|offset|pathLength|dx|dy|pattern.*|gradient.*|clip.*|mask.*|marker.*|orient|refX|refY)$/;
const [PAD, INSET] = [6, 14]; // with the panel's own padding a margin of 20

const escaped = (text: string): string => text.replace(/[&<>"]/g, (each) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[each]!).replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, "");
const num = (x: number): string => String(Math.round(x * 100) / 100);
const clear = (colour: string): boolean => colour === "transparent" || /^rgba\(.*,\s*0\)$|\/\s*0\)$/.test(colour);

/** An element of a drawing with what it looks like written on it. */
function drawn(from: Element): string {
  const style = getComputedStyle(from);
  if (style.display === "none" || style.visibility === "hidden") return "";
  const tag = from.tagName;
  const kept = [...from.attributes].filter(({ name, value }) => KEEP.test(name) && !/^\s*(javascript|data):/i.test(value)).map(({ name, value }) => `${name}="${escaped(value)}"`);
  if (tag === "title" || tag === "desc") return `<${tag}>${escaped(from.textContent ?? "")}</${tag}>`;
  if (!/^(svg|g|path|line|rect|circle|ellipse|text|tspan|polyline|polygon|defs|pattern|clipPath|mask|linearGradient|radialGradient|stop|use|image)$/.test(tag)) return "";
  for (const [name, usual] of Object.entries(PROPERTIES)) {
    const value = style.getPropertyValue(name);
    const text = tag === "text" || tag === "tspan";
    if ((name.startsWith("font") || name === "letter-spacing" || name === "text-anchor") && !text) continue;
    if (value && value !== usual) kept.push(`${name}="${escaped(value.replaceAll('"', "'"))}"`);
  }
  if (tag === "stop") kept.push(`stop-color="${style.stopColor}"`);
  if (style.transform !== "none" && tag !== "svg") kept.push(`transform="${escaped(style.transform)}"`);
  const inner = [...from.childNodes].map((node) => (node instanceof Element ? drawn(node) : node.nodeType === Node.TEXT_NODE ? escaped(node.textContent ?? "") : "")).join("");
  return `<${tag} ${kept.join(" ")}>${inner}</${tag}>`;
}

/** Words of a text as they stand on the page, a piece for each line. */
function written(node: Text, at: DOMRect, out: string[]): void {
  const text = node.textContent ?? "";
  if (!text.trim()) return;
  const style = getComputedStyle(node.parentElement!);
  const lines: { left: number; right: number; bottom: number; top: number; text: string }[] = [];
  for (const word of text.matchAll(/\S+/g)) {
    const range = document.createRange();
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    const box = range.getBoundingClientRect();
    const last = lines[lines.length - 1];
    if (!box.width) continue;
    if (last && Math.abs(last.top - box.top) < 3) Object.assign(last, { right: box.right, text: `${last.text} ${word[0]}` });
    else lines.push({ left: box.left, right: box.right, top: box.top, bottom: box.bottom, text: word[0] });
  }
  for (const line of lines) {
    const y = (line.top + line.bottom) / 2 - at.top + parseFloat(style.fontSize) * 0.35;
    out.push(`<text x="${num(line.left - at.left)}" y="${num(y)}" textLength="${num(line.right - line.left)}" lengthAdjust="spacingAndGlyphs" font-family="${escaped(style.fontFamily.replaceAll('"', "'"))}" font-size="${style.fontSize}" font-weight="${style.fontWeight}" fill="${style.color}">${escaped(line.text)}</text>`);
  }
}

/** A box's ground and border, in its own shape: cut to a polygon, round, or turned. */
function boxed(node: Element, style: CSSStyleDeclaration, x: number, y: number, w: number, h: number, out: string[]): void {
  if (!w || !h) return;
  const ground = clear(style.backgroundColor) ? "none" : style.backgroundColor;
  const corners = /^polygon\((.*)\)$/.exec(style.clipPath);
  if (corners && ground !== "none") {
    const points = corners[1]!.split(",").map((pair) => pair.trim().split(/\s+/).map(parseFloat));
    out.push(`<path d="M${points.map(([px, py]) => `${num(x + (px! / 100) * w)},${num(y + (py! / 100) * h)}`).join("L")}Z" fill="${ground}"/>`);
    return;
  }
  const radius = style.borderTopLeftRadius;
  const wide = parseFloat(style.borderTopWidth) || 0;
  const even = wide > 0 && (["Right", "Bottom", "Left"] as const).every((side) => parseFloat(style[`border${side}Width`]) === wide && style[`border${side}Color`] === style.borderTopColor) && style.borderTopStyle !== "none" && !clear(style.borderTopColor);
  const turned = style.transform !== "none" && node instanceof HTMLElement ? style.transform.match(/matrix\((.*)\)/)?.[1]?.split(",").map(Number) : undefined;
  const [bw, bh] = turned && node instanceof HTMLElement ? [node.offsetWidth, node.offsetHeight] : [w, h];
  const [cx, cy] = [x + w / 2, y + h / 2];
  const rx = radius.endsWith("%") ? (parseFloat(radius) / 100) * Math.min(bw, bh) : Math.min(parseFloat(radius) || 0, bh / 2);
  const spin = turned ? ` transform="matrix(${turned.slice(0, 4).join(" ")} ${num(cx)} ${num(cy)}) translate(${num(-cx)} ${num(-cy)})"` : "";
  const edge = even ? ` stroke="${style.borderTopColor}" stroke-width="${num(wide)}"${style.borderTopStyle === "dashed" || style.borderTopStyle === "dotted" ? ' stroke-dasharray="3 2"' : ""}` : "";
  const inset = even ? wide / 2 : 0;
  if (ground !== "none" || even) out.push(`<rect x="${num(cx - bw / 2 + inset)}" y="${num(cy - bh / 2 + inset)}" width="${num(bw - 2 * inset)}" height="${num(bh - 2 * inset)}" rx="${num(rx)}" fill="${ground}"${edge}${spin}/>`);
  if (even) return;
  const sides = [["Top", x, y, x + w, y], ["Right", x + w, y, x + w, y + h], ["Bottom", x, y + h, x + w, y + h], ["Left", x, y, x, y + h]] as const;
  for (const [side, x1, y1, x2, y2] of sides) {
    const size = parseFloat(style[`border${side}Width`]);
    if (size && style[`border${side}Style`] !== "none" && !clear(style[`border${side}Color`])) out.push(`<path d="M${num(x1)},${num(y1)}L${num(x2)},${num(y2)}" stroke="${style[`border${side}Color`]}" stroke-width="${num(size)}"/>`);
  }
}

/** Whatever is on the page below a node: drawings, boxes with a colour or a border, text. */
function seen(node: Node, at: DOMRect, out: string[]): void {
  if (node instanceof Text) return written(node, at, out);
  if (!(node instanceof Element)) return;
  const style = getComputedStyle(node);
  const box = node.getBoundingClientRect();
  if (style.opacity === "0" || node.classList.contains("sr") || !node.checkVisibility({ visibilityProperty: true })) return;
  const [x, y, w, h] = [box.left - at.left, box.top - at.top, box.width, box.height];
  if (node instanceof SVGSVGElement) {
    const view = node.getAttribute("viewBox") ?? `0 0 ${num(w)} ${num(h)}`;
    const open = `<svg x="${num(x)}" y="${num(y)}" width="${num(w)}" height="${num(h)}" viewBox="${escaped(view)}" preserveAspectRatio="${escaped(node.getAttribute("preserveAspectRatio") ?? "xMidYMid meet")}" overflow="${style.overflow === "hidden" ? "hidden" : "visible"}">`;
    out.push(open + [...node.children].map(drawn).join("") + "</svg>");
    return;
  }
  if (node instanceof HTMLCanvasElement) {
    out.push(`<image x="${num(x)}" y="${num(y)}" width="${num(w)}" height="${num(h)}" href="${node.toDataURL("image/png")}"/>`);
    return;
  }
  if (node instanceof HTMLInputElement && node.type === "range") {
    const [low, high] = [Number(node.min || 0), Number(node.max || 100)];
    const at = x + 7 + ((Number(node.value) - low) / (high - low || 1)) * (w - 14);
    out.push(`<path d="M${num(x)},${num(y + h / 2)}h${num(w)}" stroke="${style.color}" stroke-opacity=".3" stroke-width="3" stroke-linecap="round"/><circle cx="${num(at)}" cy="${num(y + h / 2)}" r="6.5" fill="${style.color}"/>`);
    return;
  }
  boxed(node, style, x, y, w, h, out);
  if (node instanceof HTMLInputElement && (node.type === "checkbox" || node.type === "radio")) {
    out.push(`<rect x="${num(x + 0.5)}" y="${num(y + 0.5)}" width="${num(w - 1)}" height="${num(h - 1)}" rx="${node.type === "radio" ? num(w / 2) : 2}" fill="none" stroke="${style.color}"/>`);
    if (node.checked) out.push(`<path d="M${num(x + w * 0.22)},${num(y + h * 0.52)}l${num(w * 0.2)},${num(h * 0.22)}l${num(w * 0.36)},${num(-h * 0.46)}" fill="none" stroke="${style.color}" stroke-width="1.6"/>`);
    return;
  }
  if (node instanceof HTMLInputElement || node instanceof HTMLSelectElement) {
    const value = node instanceof HTMLSelectElement ? (node.selectedOptions[0]?.text ?? "") : node.value;
    out.push(`<text x="${num(x + 8)}" y="${num(y + h / 2 + 4)}" font-family="Inter" font-size="${style.fontSize}" fill="${style.color}">${escaped(value)}</text>`);
    return;
  }
  for (const child of node.childNodes) seen(child, at, out);
}

/** The page's own fonts as data, so that a picture brings them; those for letters that are in it. */
async function fonts(text: string): Promise<string> {
  const found: string[] = [];
  for (const sheet of document.styleSheets) {
    let rules: CSSRuleList;
    try {
      rules = sheet.cssRules;
    } catch {
      continue; // not ours to read
    }
    for (const rule of rules) {
      if (!(rule instanceof CSSFontFaceRule)) continue;
      const family = rule.style.getPropertyValue("font-family").replace(/["']/g, "");
      const greek = /U\+0?37/i.test(rule.style.getPropertyValue("unicode-range"));
      if (!text.includes(family) || (greek && !/[\u0370-\u03ff]/.test(text))) continue;
      const url = /url\(["']?([^"')]+)/.exec(rule.style.getPropertyValue("src"))?.[1];
      const bytes = url ? await fetch(new URL(url, sheet.href ?? location.href)).then((reply) => (reply.ok ? reply.arrayBuffer() : null), () => null) : null;
      if (!bytes) continue;
      let binary = "";
      for (const byte of new Uint8Array(bytes)) binary += String.fromCharCode(byte);
      const range = rule.style.getPropertyValue("unicode-range");
      found.push(`@font-face{font-family:"${family}";font-weight:${rule.style.getPropertyValue("font-weight") || "400"};src:url(data:font/woff2;base64,${btoa(binary)}) format("woff2");${range ? `unicode-range:${range}` : ""}}`);
    }
  }
  return found.join("");
}

function wrapped(text: string, wide: number, font: string): string[] {
  const pen = document.createElement("canvas").getContext("2d");
  if (!pen) return [text];
  pen.font = font;
  const lines: string[] = [];
  for (const word of text.split(/ +/)) {
    const last = lines[lines.length - 1];
    if (last !== undefined && pen.measureText(`${last} ${word}`).width <= wide) lines[lines.length - 1] = `${last} ${word}`;
    else lines.push(word);
  }
  return lines;
}

/** A node of the page as one SVG, under its caption. */
export async function picture(node: Element, caption: Caption): Promise<string> {
  node.setAttribute("data-picture", ""); // what scrolls within it stands there whole
  const at = node.getBoundingClientRect();
  const body: string[] = [];
  for (const child of node.childNodes) seen(child, at, body);
  const high = Math.max(at.height, node.scrollHeight);
  const inner = Math.max(at.width, node.scrollWidth, ...[...node.querySelectorAll(".tblwrap, .bleed")].map((each) => each.scrollWidth));
  node.removeAttribute("data-picture");
  const style = getComputedStyle(node);
  const root = getComputedStyle(document.documentElement);
  const colour = (name: string): string => root.getPropertyValue(name).trim();
  const family = getComputedStyle(document.body).fontFamily.replaceAll('"', "'");
  const head: string[] = [];
  let y = PAD + INSET + 14;
  const put = (text: string, size: number, weight: number, fill: string): void => {
    for (const line of wrapped(text, inner - 2 * INSET, `${weight} ${size}px Inter`)) {
      head.push(`<text x="${INSET}" y="${num(y)}" font-family="${escaped(family)}" font-size="${size}" font-weight="${weight}" fill="${fill}">${escaped(line)}</text>`);
      y += size * 1.4;
    }
  };
  put(caption.title, 15, 640, colour("--ink"));
  for (const line of caption.lines.filter(Boolean)) put(line, 12, 420, colour("--ink-2"));
  // The key of the panel's header stands over its body.
  const key = node.parentElement?.querySelector("header .key");
  if (key) {
    const own = key.getBoundingClientRect();
    const out: string[] = [];
    seen(key, own, out);
    head.push(`<g transform="translate(${INSET} ${num(y - 8)})">${out.join("")}</g>`);
    y += own.height + 4;
  }
  const top = y + 6;
  const tall = top + high + 12;
  y = tall + 12;
  const lead = head.length;
  put(caption.foot, 10.5, 420, colour("--ink-3"));
  const [width, height] = [Math.ceil(inner + 2 * PAD), Math.ceil(y + PAD + 6)];
  const ground = colour("--surface") || style.backgroundColor;
  const text = [...head.slice(0, lead), `<g transform="translate(0 ${num(top)})">${body.join("")}</g>`, ...head.slice(lead)].join("");
  return `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" role="img"><title>${escaped(caption.title)}</title><desc>${escaped(caption.lines.join(" "))}</desc><style>${await fonts(text)}</style><rect width="${width}" height="${height}" fill="${ground}"/><g transform="translate(${PAD} 0)" font-variant-numeric="tabular-nums">${text}</g></svg>`;
}

/** An SVG as a PNG of twice its size. */
export async function png(svg: string): Promise<Blob> {
  const url = URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" }));
  try {
    const image = new Image();
    image.src = url;
    await image.decode();
    await new Promise((done) => setTimeout(done, 60)); // its fonts are data, and are read a moment later
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [image.naturalWidth * 2, image.naturalHeight * 2];
    const pen = canvas.getContext("2d");
    if (!pen) throw new Error("this browser draws no pictures");
    pen.drawImage(image, 0, 0, canvas.width, canvas.height);
    return await new Promise((done, fail) => canvas.toBlob((blob) => (blob ? done(blob) : fail(new Error("the picture is too large for this browser"))), "image/png"));
  } finally {
    URL.revokeObjectURL(url);
  }
}
