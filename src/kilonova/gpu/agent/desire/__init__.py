"""What a Node should say of its GPUs, and what its devices should have. Pure."""
