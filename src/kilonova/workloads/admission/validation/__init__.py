"""Validation rules of PodCliqueSets and ClusterTopologyBindings. Pure.

Every rule is a function that yields field errors; `podcliqueset` and `clustertopology` combine
them.
"""
