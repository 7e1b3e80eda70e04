"""A small OpenAI-compatible server with draft-model speculative decoding on one CPU thread, behind the name `vllm`."""
