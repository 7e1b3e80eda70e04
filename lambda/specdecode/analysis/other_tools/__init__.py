"""Results of LLMPerf, vLLM, AIPerf and GuideLLM, read and compared as if they were ours."""
