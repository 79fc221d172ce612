// The engine's names in words; those that its reports use, too, are in words.json.
import { layers, operators, parts } from "../../src/rooflab/document/words.json";

/** A table that is asked with names from outside: it holds its own rows and nothing inherited. */
export const bare = <T extends object>(rows: T): T => Object.setPrototypeOf(rows, null) as T;

export type Bound = "memory" | "compute" | "network" | "latency";
export const BOUNDS: Bound[] = ["memory", "compute", "network", "latency"];

const FINE: Record<string, Bound> = { compute: "compute", weight: "memory", kv: "memory", activation: "memory", memory: "memory", comm: "network", network: "network" };

/** The colour and shape of what the engine says binds an operator. */
export function boundOf(fine: string): Bound {
  return FINE[fine] ?? "latency";
}

const OPERATORS: Record<string, string> = bare(operators);
const PARTS: Record<string, string> = bare(parts);
const LAYERS: Record<string, string> = bare(layers);

function sentence(name: string): string {
  const plain = name.replaceAll("_", " ").replace(/\bkv\b/g, "KV").replace(/\bffn\b/g, "FFN").replace(/\bmoe\b/gi, "MoE").replace(/\bmla\b/gi, "MLA");
  return plain.charAt(0).toUpperCase() + plain.slice(1);
}

/** Which layers are meant, where a model has several kinds. */
export function layersName(layers: string): string {
  const [kind = "", other] = layers.split(".");
  const said = /^w\d+$/.test(kind) ? `window ${Number(kind.slice(1)).toLocaleString("en-GB")}` : (LAYERS[kind] ?? `${kind.replaceAll("_", " ")} layers`);
  return other ? `${said} (${other})` : said;
}

/** An operator in words; operators of some layers only say which. */
export function operatorName(name: string): string {
  const [base = name, layers] = name.split("@");
  const plain = OPERATORS[base] ?? sentence(base);
  return !layers || /^(experts|shared|router)/.test(base) ? plain : `${plain}, ${layersName(layers)}`;
}

export function partName(name: string): string {
  return PARTS[name] ?? sentence(name);
}

const KEPT: Record<string, string> = bare({ gpt: "GPT", gpt2: "GPT-2", opt: "OPT", mpt: "MPT", glm: "GLM", vl: "VL", oss: "OSS", it: "IT", fp8: "FP8", nvfp4: "NVFP4", xl: "XL", yi: "Yi", moe: "MoE", deepseek: "DeepSeek", minicpm4: "MiniCPM4", minimax: "MiniMax", internlm2: "InternLM2", stablelm: "StableLM", codellama: "CodeLlama", dbrx: "DBRX", olmo: "OLMo" });

/** A catalog name as people write it: llama-3.1-70b is Llama-3.1-70B. */
export function modelName(name: string): string {
  return name
    .split("/")
    .pop()!
    .split("-")
    .map((word) => KEPT[word] ?? (/^[a-z]?\d+(\.\d+)?[bm]$/.test(word) || /^a\d/.test(word) || /^v\d/.test(word) ? word.toUpperCase() : word.charAt(0).toUpperCase() + word.slice(1)))
    .join("-");
}

/** h100-sxm is H100 SXM. */
export function deviceName(name: string): string {
  return name
    .split("-")
    .map((word) => (/^(ultra|max|effective)$/.test(word) ? word.charAt(0).toUpperCase() + word.slice(1) : word === "trainium2" ? "Trainium2" : word === "gaudi2" || word === "gaudi3" ? word.charAt(0).toUpperCase() + word.slice(1) : word.toUpperCase()))
    .join(" ")
    .replace(/\b(\d+)GB\b/, "$1\u00a0GB");
}

export function formatName(name: string): string {
  return name
    .replaceAll("_", " ")
    .replace(/^(fp|bf|int|nvfp|mxfp|nf)(\d)/, (_, kind: string, digit: string) => kind.toUpperCase() + digit).replace(/^q(\d)/, "Q$1");
}

export const SUBJECTS: Record<string, { name: string; short: string }> = bare({
  tpot: { name: "Time per output token", short: "TPOT" },
  ttft: { name: "Time to first token, whole batch", short: "TTFT, whole batch" },
  ttft_one: { name: "Time to first token, one prompt", short: "TTFT, one prompt" },
  e2e: { name: "Time to the last token", short: "End to end" },
  output_throughput: { name: "Output throughput", short: "Output throughput" },
  throughput_per_device: { name: "Throughput per device", short: "Throughput per device" },
  tokens_per_second_per_user: { name: "Speed per user", short: "Speed per user" },
  memory: { name: "Memory per device", short: "Memory per device" },
  weights: { name: "Weights per device", short: "Weights" },
  kv: { name: "KV cache per device", short: "KV cache" },
  workspace: { name: "Workspace per device", short: "Workspace" },
  bandwidth_share: { name: "Memory bandwidth in use", short: "Bandwidth in use" },
  cost: { name: "Cost of a million output tokens", short: "Cost" },
  energy: { name: "Energy per output token", short: "Energy" },
});

/** What the levels of a machine are called, innermost first: what a device is, what the first link joins, what the next one does. */
const LEVELS: Record<string, [string, string]> = { "intra-cube": ["PE", "cube"], "inter-cube": ["cube", "SIP"], "inter-sip": ["SIP", "ring"] };

export function levelNames(links: string[]): string[] {
  const known = links.map((link) => LEVELS[link]);
  if (known[0]) return [known[0][0], ...known.map((each, at) => each?.[1] ?? `level ${at + 1}`)];
  return ["device", ...links.map((_, at) => ["node", "rack", "row"][at] ?? `level ${at + 1}`)];
}

type Shelved = Record<string, unknown>;

export interface Link {
  name: string;
  /** As people write it, where the name does not say it. */
  title: string;
  bandwidth: number;
  latency: number;
  size: number;
  topology: string;
}

/** Links of a system as the catalog lists them, innermost first. */
export function linksOf(shelves: { systems?: Shelved[]; devices?: Shelved[] }, on: unknown): Link[] {
  const name = typeof on === "string" ? on.replace(/^\s*\d+\s*[x×*]\s*/, "") : "";
  const row = shelves.systems?.find((each) => each.name === name) ?? shelves.devices?.find((each) => each.name === name);
  return (row?.levels ?? []) as Link[];
}

export function levelsOf(shelves: { systems?: Shelved[]; devices?: Shelved[] }, on: unknown): string[] {
  return levelNames(linksOf(shelves, on).map((link) => link.name));
}
