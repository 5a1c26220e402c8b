"""`kilonova serve list`, `show` and `why`: what services are doing."""
