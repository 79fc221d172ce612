// Long parts of the address: deflated, in base64url, with a mark in front that no JSON begins with.
export const MARK = "~";
const LARGEST = 2_000_000; // characters that are unpacked at most: a link is no place for more than a config.json

async function through(bytes: Uint8Array<ArrayBuffer>, change: CompressionStream | DecompressionStream, most: number): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array[] = [];
  let size = 0;
  const reader = (new Blob([bytes]).stream().pipeThrough(change) as ReadableStream<Uint8Array>).getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    parts.push(part.value);
    size += part.value.length;
    if (size > most) {
      await reader.cancel();
      throw new Error("too large");
    }
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

export async function pack(text: string): Promise<string> {
  const bytes = await through(new TextEncoder().encode(text), new CompressionStream("deflate-raw"), Infinity);
  let plain = "";
  for (const byte of bytes) plain += String.fromCharCode(byte);
  return MARK + btoa(plain).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

/** The text that was packed; null where it is none. */
export async function unpack(packed: string): Promise<string | null> {
  if (!packed.startsWith(MARK) || !/^[\w-]+$/.test(packed.slice(MARK.length))) return null;
  try {
    const plain = atob(packed.slice(MARK.length).replace(/-/g, "+").replace(/_/g, "/"));
    const bytes = await through(Uint8Array.from(plain, (each) => each.charCodeAt(0)), new DecompressionStream("deflate-raw"), LARGEST);
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return null;
  }
}
