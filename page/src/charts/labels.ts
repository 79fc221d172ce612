// Where labels go: beside their mark where there is room, else a little further with a leader line, else not at all.

export interface Marked {
  id: string;
  x: number;
  y: number;
  r: number;
  text: string;
}

export interface Placed {
  id: string;
  text: string;
  x: number;
  y: number;
  anchor: "start" | "end";
  leader: boolean;
}

export interface Frame {
  left: number;
  right: number;
  top: number;
  bottom: number;
}

export interface Box {
  x0: number;
  x1: number;
  y0: number;
  y1: number;
}

function overlap(a: Box, b: Box): boolean {
  return a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1;
}

export type Point = [number, number];

/** Whether a line from a to b comes into a box. */
export function crosses([ax, ay]: Point, [bx, by]: Point, box: Box): boolean {
  let [from, until] = [0, 1];
  for (const [at, by_, low, high] of [[ax, bx - ax, box.x0, box.x1], [ay, by - ay, box.y0, box.y1]] as const) {
    if (!by_) {
      if (at < low || at > high) return false;
      continue;
    }
    const [one, two] = [(low - at) / by_, (high - at) / by_];
    [from, until] = [Math.max(from, Math.min(one, two)), Math.min(until, Math.max(one, two))];
  }
  return from <= until;
}

/** Whether a box lies clear of other boxes and of lines. */
export const clear = (box: Box, boxes: Box[], lines: Point[][]): boolean =>
  !boxes.some((other) => overlap(box, other)) && !lines.some((line) => line.some((point, i) => i > 0 && crosses(line[i - 1]!, point, box)));

/** The boxes of marks. */
export const boxesOf = (marks: Marked[]): Box[] => marks.map(({ x, y, r }) => ({ x0: x - r, x1: x + r, y0: y - r, y1: y + r }));

const HEIGHT = 14;

/** Labels in order of importance; `taken` are boxes and `lines` lines that no label may lie on. */
export function place(marks: Marked[], all: Marked[], frame: Frame, taken: Box[] = [], size = 6.1, most = 8, lines: Point[][] = []): Placed[] {
  const boxes: Box[] = [...taken];
  const solid = boxesOf(all);
  const leaders: Point[][] = [];
  const placed: Placed[] = [];
  for (const mark of marks) {
    if (placed.length >= most) break;
    const wide = mark.text.length * size;
    const near = mark.r * 1.15 + 6;
    const tries: [number, number, "start" | "end"][] = [
      [near, 4, "start"],
      [-near, 4, "end"],
    ];
    for (let step = 1; step <= 6; step += 1) {
      for (const side of [1, -1]) {
        const away = near + 6 + (step > 4 ? 14 : 0);
        tries.push([away, side * step * 17 + 4, "start"], [-away, side * step * 17 + 4, "end"]);
      }
    }
    for (const [dx, dy, anchor] of tries) {
      const x = mark.x + dx;
      const y = mark.y + dy;
      const box: Box = { x0: anchor === "start" ? x - 2 : x - wide - 2, x1: anchor === "start" ? x + wide + 2 : x + 2, y0: y - HEIGHT + 2, y1: y + 4 };
      const inside = box.x0 >= frame.left && box.x1 <= frame.right && box.y0 >= frame.top && box.y1 <= frame.bottom;
      const leader: Point[] = [[mark.x, mark.y], [x + (anchor === "end" ? 4 : -4), y - 3.5]];
      const led = Math.abs(dy - 4) > 1;
      if (!inside || !clear(box, [...boxes, ...solid], [...lines, ...leaders]) || (led && boxes.some((other) => crosses(leader[0]!, leader[1]!, other)))) continue;
      boxes.push(box);
      if (led) leaders.push(leader);
      placed.push({ id: mark.id, text: mark.text, x, y, anchor, leader: led });
      break;
    }
  }
  return placed;
}
