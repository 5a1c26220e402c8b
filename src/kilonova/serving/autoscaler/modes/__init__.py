"""The modes: each specifies how many servers it wants, from its own figures. Pure."""
