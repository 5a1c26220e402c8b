"""The volumes of a pod: ConfigMaps, Secrets, tokens, claims, emptyDir and hostPath."""
