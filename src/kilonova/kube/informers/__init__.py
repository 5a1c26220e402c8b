"""Reflectors and indexed stores, as client-go's tools/cache.

A `Reflector` lists and watches a resource into a `Store`, which has indexes and event handlers. A
reflector with its store is what client-go calls a SharedIndexInformer.
"""
