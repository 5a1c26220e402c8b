"""Language models: sequences in slots, blocks of the KV cache, steps."""
