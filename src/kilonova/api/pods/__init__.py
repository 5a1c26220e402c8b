"""Pods: their effective `resources`, changes to all their containers (`specs`), `tolerations`, and
the workload that a pod belongs to (`workload_owner`).
"""
