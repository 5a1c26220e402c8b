"""`kilonova run agent`: the agent of the node that it runs on, as a process of its own."""
