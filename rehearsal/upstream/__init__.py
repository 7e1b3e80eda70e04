"""Real vLLM as the second engine of a rehearsal (`make rehearse ENGINE=vllm`).

What it needs of this machine, and the pair of models as Llama models, which it can load.
"""
