"""`kilonova run operator`: the command (`command`), its flags and Grove's OperatorConfiguration
(`options`, `config`), and the process (`process.run_operator`)."""
