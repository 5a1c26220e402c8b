"""What commands print: tables, JSON, YAML, colours, and text that is safe on a terminal.

`formats` encodes values and formats tables, `list_printer` prints lists and their changes.
"""
