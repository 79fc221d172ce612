"""Llama-3.1-8B on one H100: does it fit, how fast is it, and what does the batch do?"""

import rooflab

answer = rooflab.estimate("llama-3.1-8b", on="h100-sxm", batch=32, prompt=1024, output=256)

print(f"fits:   {answer.fits}, {answer.memory.used / answer.memory.capacity:.0%} of the memory")
print(f"TTFT:   {answer.ttft * 1000:.0f} ms, between {answer.low.ttft * 1000:.0f} and {answer.high.ttft * 1000:.0f}")
print(f"TPOT:   {answer.tpot * 1000:.1f} ms, between {answer.low.tpot * 1000:.1f} and {answer.high.tpot * 1000:.1f}")
print(f"output: {answer.output_throughput:,.0f} token/s")
print(f"bound:  prefill by {answer.bound.prefill}, decode by {answer.bound.decode}")

# Lists are evaluated all at once. The weights are read once a step however many sequences there are, so a larger batch is
# nearly free, until the caches of its sequences weigh as much as the weights, or memory is full.
batches = [1, 4, 16, 64, 256]
many = rooflab.estimate("llama-3.1-8b", on="h100-sxm", batch=batches, prompt=1024, output=256)

print("\nbatch  tokens/s  tokens/s/user")
for batch, rate, each, fits in zip(
    batches, many.output_throughput, many.tokens_per_second_per_user, many.fits, strict=True
):
    print(f"{batch:5d}  {rate:8,.0f}  {each:13,.0f}" if fits else f"{batch:5d}  does not fit")
