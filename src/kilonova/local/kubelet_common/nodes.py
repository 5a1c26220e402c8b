"""Node objects of simulated nodes and of the process node."""

from kilonova.kube.client.resource import unstructured_resource

NODES = unstructured_resource("", "v1", "nodes", "Node", False)
