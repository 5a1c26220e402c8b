"""Where an instance would be placed, without creating it: what fit, alloc and capacity figures ask.

`instance_gang` makes the gang that an instance would become; the scheduler's library places it
(`kilonova.scheduler.library.copies`). There is no other placement here. `allocation` does so for a
build, `saved_allocation` keeps the answer with its inputs, for tests.
"""
