"""Capacity held for gangs: backfill around a pending gang, and the capacity of Reservation objects.

`shadow.reserve_capacity` implements EASY backfill: the **shadow** is the cluster at the expected
start of the first gang that has waited too long; other gangs may be placed only if they end before
it or fit beside it. `reserved_capacity.OpenReservation` opens the capacity of a Reservation object
for a gang that names it.
"""
