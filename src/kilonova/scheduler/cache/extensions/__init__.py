"""Caches of objects that pods refer to, or that refer to pods.

Devices and claims, namespaces, PodGroups, disruption budgets. When such an object changes, the pods
concerned are read again.
"""
