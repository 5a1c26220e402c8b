"""Where parts come from: Go modules, packages of Debian, wheels of PyPI."""
