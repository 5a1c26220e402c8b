"""What a Node should report of its GPUs, and what its devices should have. Pure."""
