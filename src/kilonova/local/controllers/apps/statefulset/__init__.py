"""StatefulSets: pods with a number, a name and storage of their own."""
