"""The theory of speculative decoding: expected tokens, speed-up, and what to try next."""
