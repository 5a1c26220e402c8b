"""Binds placed gangs: claim allocations first, then volumes, then one Binding per pod.

Entry point: `binder.Binder.bind`.
"""
