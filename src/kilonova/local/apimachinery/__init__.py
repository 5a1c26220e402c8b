"""What the API server, the controllers and the nodes share, as k8s.io/apimachinery is shared.

`errors` builds `Status` and field errors, `names` validates names and object metadata, `selectors`
parses label and field selectors, `patch` implements the patch types, `jsonpath` evaluates JSONPath,
`unstructured` reads nested fields of plain JSON objects. Nothing here imports the API server, a
controller or a node.
"""
