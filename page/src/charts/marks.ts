// One mark per bound: shape repeats what colour says. Triangle compute, square memory, diamond network, open circle latency.
import type { Bound } from "../words";

export function markPath(bound: Bound, x: number, y: number, r: number): string {
  const k = r * 1.2;
  const q = r * 0.89;
  if (bound === "compute") return `M${x},${y - k}L${x + k},${y + k * 0.8}L${x - k},${y + k * 0.8}Z`;
  if (bound === "memory") return `M${x - q},${y - q}h${2 * q}v${2 * q}h${-2 * q}Z`;
  if (bound === "network") return `M${x},${y - k}L${x + k},${y}L${x},${y + k}L${x - k},${y}Z`;
  return `M${x - r},${y}a${r},${r} 0 1 0 ${2 * r},0a${r},${r} 0 1 0 ${-2 * r},0Z`;
}

/** A radius whose area is in proportion to a share, with a least size that can be seen and hit. */
export function radius(share: number, whole = 38, least = 3.4): number {
  return Math.max(least, Math.sqrt(Math.max(share, 0)) * whole);
}

export function line(points: [number, number][]): string {
  return points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");
}
