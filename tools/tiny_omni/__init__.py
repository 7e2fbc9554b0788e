"""A random-weight Qwen2.5-Omni thinker that sees and hears, for tests of the way into vLLM."""
