"""At which batch does a chip stop waiting for its memory? Llama-3.1-8B across devices."""

import rooflab

CHIPS = ["t4", "a100-sxm-80gb", "h100-sxm", "h200-sxm", "b200-sxm", "mi300x", "tpu-v6e"]

print("device         FLOP/byte  critical batch  balance context  in memory at 8k")
for name in CHIPS:
    chip = rooflab.chip("llama-3.1-8b", on=name, context="8k").chip
    print(
        f"{name:13}  {chip.intensity:9,.0f}  {chip.critical_batch:14,.0f}  {chip.balance_context:15,.0f}  "
        f"{chip.memory_batch:15,.0f}"
    )

print("""
Below the critical batch a step waits for the weights. It is the ridge of the chip's roofline times half the bytes of a
weight, whatever the model. Beyond the balance context a sequence's cache costs more than its arithmetic, at any batch.""")
