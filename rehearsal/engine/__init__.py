"""A small OpenAI-compatible server with draft-model speculative decoding on one CPU thread, behind the name `vllm`."""

import os

for _library in ("OPENBLAS", "OMP", "MKL"):  # read when NumPy is imported, which only modules below do
    os.environ[f"{_library}_NUM_THREADS"] = "1"
