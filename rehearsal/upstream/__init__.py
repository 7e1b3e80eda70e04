"""Real vLLM as the second engine of a rehearsal (`make rehearse ENGINE=vllm`).

The check of this machine, and the pair of models as Llama models, which vLLM can load.
"""
