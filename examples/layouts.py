"""DeepSeek-V3 on eight H200: which layout, for many users and for few?"""

import rooflab

DEGREES = [1, 2, 4, 8]


def layouts(batch):
    """Every (tp, ep) of eight devices with what it comes to; attention runs data-parallel on what tp leaves."""
    for tp in DEGREES:
        for ep in DEGREES:
            try:
                found = rooflab.estimate(
                    "deepseek-v3",
                    on="8x h200-sxm",
                    batch=batch,
                    prompt=2048,
                    output=512,
                    tp=tp,
                    ep=ep,
                    attention_dp=8 // tp,
                )
            except rooflab.InputError:
                continue  # the model does not divide that way
            if found.fits:
                yield found


for batch in (8, 256):
    print(f"batch {batch}: tp  ep  attention dp  ms/token  tokens/s  memory")
    for found in sorted(layouts(batch), key=lambda found: -found.output_throughput)[:4]:
        ask, used = found.ask, found.memory.used / found.memory.capacity
        print(
            f"{ask.tp:{10 + len(str(batch))}d}  {ask.ep:2d}  {ask.attention_dp:12d}  {found.tpot * 1000:8.0f}  "
            f"{found.output_throughput:8,.0f}  {used:6.0%}"
        )
