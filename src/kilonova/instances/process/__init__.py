"""The controllers of inference engines as a part of a process."""
