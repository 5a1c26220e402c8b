"""SPDY/3.1: frames, multiplexed streams, and remote commands over them."""
