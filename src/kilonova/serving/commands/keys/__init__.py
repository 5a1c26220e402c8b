"""`kilonova serve key`: API keys, of which the cluster has digests."""
