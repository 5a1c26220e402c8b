"""Reservations as gangs, and their reserved nodes, in both directions."""
