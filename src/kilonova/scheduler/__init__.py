"""Places gangs on nodes.

`core` decides and knows nothing of Kubernetes: values and arrays in, a plan out. `reading` turns
what the API server holds into those values. Around both stands the shell that watches, binds and
says why not.
"""
