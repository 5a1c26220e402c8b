"""A component as "Add a component" describes it, outside of Kilonova's packages.

It greets: for every Greeting it writes a message to its status. It has a kind, a webhook, a
controller, a child process, a command, a console page, a check of `kilonova doctor` and a page of
documentation, all of which `component.py` registers.
"""
