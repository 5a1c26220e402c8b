"""What a new user waits for, and what an operator pays: the command, `kilonova up`, the console.

Everything is measured through the doors that people use: the installed command in a process of
its own, `kilonova up --detach --wait` on an empty folder and again on its data, the console in
Chromium by the link that `kilonova status` prints. Where Kubernetes has something that does the
same, it is measured in the same run.
"""

from bench.product.command import product

__all__ = ["product"]
