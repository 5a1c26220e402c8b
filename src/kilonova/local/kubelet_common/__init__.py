"""What the kubelets of simulated nodes and of the process node share.

Node Leases, Node labels and the restart back-off of containers.
"""
