"""StatefulSets: pods with stable ordinals, names and storage."""
