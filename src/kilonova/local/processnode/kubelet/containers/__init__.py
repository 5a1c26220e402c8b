"""A pod's containers: which to start and stop, their runs, restarts, termination and logs."""
