"""What users wait for and what runs cost: the CLI, `kilonova up`, the console.

Everything is measured through the user interfaces: the installed command in its own process,
`kilonova up --detach --wait` on an empty directory and again on its data, the console in Chromium
through the link of `kilonova status`. Where Kubernetes has an equivalent, it is measured in the
same run.
"""
