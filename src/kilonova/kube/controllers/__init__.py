"""The controller runtime, as controller-runtime has it.

A `Controller` maps changes in stores to keys in a `WorkQueue` and reconciles them. A `Manager` runs
the `Runnable`s of a process, a `Supervisor` restarts a component that fails. `Expectations` wait
until a cache shows a controller's own writes; `slow_start` bounds bulk writes. An
`OwnedObjectWriter` writes the objects of one kind that belong to an owner, and a
`ControllerRevisionWriter` what the owner was made from before.
"""
