"""Whether each pod has the devices that the scheduler chose: `comparison` is pure, `evidence` finds
out which pod a process belongs to, `verifier` reports it."""
