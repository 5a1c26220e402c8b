"""`kilonova top`: a live view of a cluster in the terminal.

The **view state** is what the user has selected (page, filter, order), the **view model** the data
to draw, a **frame** the lines for a terminal. `frame` renders frames (pure), `screen` owns the
terminal, and `live_display` connects both to the tables of a cluster.
"""
