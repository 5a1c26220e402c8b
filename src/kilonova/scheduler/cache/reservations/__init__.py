"""Capacity reserved by Reservation objects, as it is counted in the snapshot.

`ReservationCache` keeps the **reserved nodes** of each reservation. A **consumer** is a gang that
may use them; **reserved capacity** is what they hold less the pods of the consumers.
"""
