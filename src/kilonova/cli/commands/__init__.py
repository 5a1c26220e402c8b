"""The Typer commands: flags, help texts and exit codes.

`app.app` is the root command, `app.main` runs it; the module of a command is imported when the
command is chosen. A module here imports nothing heavy at module level: what a command does is
imported when it runs. `lists` has the commands that list objects, `run` the components as
processes. `kilonova.component.command` has what commands share, `name_completion` the names for
shell completion, `component_flags` the flags of `up` that components register.
"""
