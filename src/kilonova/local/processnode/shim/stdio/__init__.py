"""Standard input and output of containers: pipes, terminals, and the log in CRI format."""
