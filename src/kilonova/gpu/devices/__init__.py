"""The GPUs of a node: what they are (`model`), the way to them (`backend`), and what may go wrong
(`errors`)."""
