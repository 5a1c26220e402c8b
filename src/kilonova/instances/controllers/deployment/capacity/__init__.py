"""How many more instances of a deployment fit: `count` computes it, for `questions`, and
`estimator` repeats that when the cluster has changed.
"""
