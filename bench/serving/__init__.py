"""The benchmark of serving: gateway, autoscaler, cold start."""
