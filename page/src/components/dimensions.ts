// The figures of a model's config that can be changed, with their names and largest values.
import type { Scenario } from "../state/scenario";

export const DIMENSIONS: Record<string, string> = { hidden_size: "Width", num_attention_heads: "Query heads", num_key_value_heads: "KV heads", head_dim: "Head width", num_hidden_layers: "Layers", intermediate_size: "FFN width" };
export const MOST: Record<string, number> = { hidden_size: 65_536, num_attention_heads: 256, num_key_value_heads: 256, head_dim: 512, num_hidden_layers: 200, intermediate_size: 131_072 };

/** A model with one figure of its config changed; a catalog model is then "like" that one. */
export function withFigure(model: Scenario["model"], key: string, value: number): Scenario["model"] {
  if (typeof model === "string") return { like: model, [key]: value };
  const inner = model.text_config as Record<string, unknown> | undefined;
  return inner && key in inner ? { ...model, text_config: { ...inner, [key]: value } } : { ...model, [key]: value };
}
