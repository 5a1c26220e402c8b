"""Default ServiceAccounts, the root CA ConfigMap, and token Secrets of every namespace."""
