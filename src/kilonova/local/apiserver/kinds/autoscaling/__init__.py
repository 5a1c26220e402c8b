"""HorizontalPodAutoscalers and their conversion between autoscaling/v1 and v2."""
