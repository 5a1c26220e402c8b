"""How the GPUs of a node are connected, from its inventory. Pure.

- `matrix`: the path of every two devices, as `nvidia-smi topo -m` writes it.
- `bandwidth`: what a set of devices can exchange, by the rules of the scheduler.
- `labels`: how the Node describes its GPUs, with the labels of GPU feature discovery.

What the Node publishes is written by the node agent alone.
"""
