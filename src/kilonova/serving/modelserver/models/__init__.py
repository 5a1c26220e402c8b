"""Models: what they are made from, and the backends that execute them."""
