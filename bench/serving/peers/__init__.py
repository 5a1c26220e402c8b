"""Servers that ours is compared with. The programs run with the packages of their part."""
