"""Pod specs: their effective `resources`, and changes to all their containers (`specs`)."""
