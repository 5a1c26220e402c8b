"""What is written into Nodes: kinds, levels of the topology, taints, and faults of simulated
nodes."""
