"""Kinds of the core group, and EndpointSlices; pods have a package of their own."""
