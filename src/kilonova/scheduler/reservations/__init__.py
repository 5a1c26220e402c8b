"""Reservation objects: capacity reserved for later pods.

A Reservation is scheduled as a gang without pods. Its **reserved nodes** (`status.nodes`) are the
nodes and devices where its pods fit. `cache.reservations` counts them; the controller evicts the
victims of a placed reservation and writes its status.

Entry point: `controller.ReservationController`.
"""
