"""GPUs of simulated nodes: wiring, topology annotations, allocation to pods."""
