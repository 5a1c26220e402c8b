"""`kilonova instances`: deployments and their instances, their history, and the way back."""
