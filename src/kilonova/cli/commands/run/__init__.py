"""The commands `kilonova run …`, from the registrations of components (`app`)."""
