"""`kilonova fit` and `kilonova alloc`: what fits, and where it would be placed."""
