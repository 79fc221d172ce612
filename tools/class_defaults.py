"""Write src/rooflab/hf/class_defaults.json: what transformers' configuration classes assume for keys a file leaves out.

Run it where transformers and torch are installed (neither is a dependency of the project), from the project's root:

    python tools/class_defaults.py

Only keys that `rooflab.hf` reads are kept, and only plain values: what a class computes when it is made is left to the reader.
"""

import dataclasses
import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "src"))
HF = Path(__file__).parent.parent / "src" / "rooflab" / "hf"
DROPPED = (
    " model_type dtype torch_dtype architectures transformers_version is_encoder_decoder quantization_config _name_or_path "
    "text_config vision_config hidden_act hidden_activation activation_function activation quant_method rms_norm_eps "
    "rms_norm_epsilon num_nextn_predict_layers mtp_num_hidden_layers name type "
)
LISTS = {"deepstack_visual_indexes", "supported_aspect_ratios", "merge_kernel_size", "block_types"}


def words_read() -> set[str]:
    """Every key name that appears in the reader's source."""
    source = "".join(path.read_text(encoding="utf-8") for path in sorted(HF.glob("*.py")))
    return {word for word in re.findall(r'"([A-Za-z_][A-Za-z0-9_]*)"', source) if f" {word} " not in DROPPED}


def plain(name: str, value: Any) -> bool:
    return isinstance(value, (bool, int, float, str)) or (isinstance(value, (list, tuple)) and name in LISTS)


def defaults_of(cls: type, words: set[str]) -> dict[str, Any]:
    """The plain defaults of one configuration class, by key."""
    found = {field.name: field.default for field in dataclasses.fields(cls)}
    return {name: value for name, value in sorted(found.items()) if name in words and plain(name, value)}


def main() -> None:
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING, CONFIG_MAPPING_NAMES

    from rooflab.hf.families import facts_of
    from rooflab.hf.towers import TOWERS

    words, table = words_read(), {}
    waiting = []
    for name in CONFIG_MAPPING_NAMES:
        try:
            waiting.append(CONFIG_MAPPING[name])
        except Exception as error:  # a class whose own dependencies are missing
            print(name, error)
    while waiting:
        cls = waiting.pop()
        kind = getattr(cls, "model_type", "")
        wanted = facts_of(kind) is not None or kind in TOWERS
        if kind in table or not dataclasses.is_dataclass(cls):
            continue
        table[kind] = defaults_of(cls, words) if wanted else {}
        waiting += [each for each in getattr(cls, "sub_configs", {}).values() if isinstance(each, type)]
    kept = {kind: values for kind, values in sorted(table.items()) if values}
    lines = [f" {json.dumps(kind)}: {json.dumps(values)}" for kind, values in kept.items()]
    (HF / "class_defaults.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    print(f"{len(kept)} classes")


if __name__ == "__main__":
    main()
