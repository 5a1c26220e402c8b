"""The modes: each says how many servers it wants, from its own figures. Pure."""
