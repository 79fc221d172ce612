"""RoofLab: memory fit, latency, throughput, cost and energy of LLM inference, from first principles."""

__version__ = "0.1.0"
