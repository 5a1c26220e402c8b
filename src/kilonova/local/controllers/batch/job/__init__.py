"""job-controller: runs pods to completion and counts each of them once."""
