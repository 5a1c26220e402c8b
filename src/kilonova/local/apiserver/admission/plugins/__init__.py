"""The built-in admission plugins, one module each."""
