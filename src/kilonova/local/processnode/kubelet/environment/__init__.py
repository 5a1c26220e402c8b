"""Environment variables of containers: sources, $(NAME) expansion, env files, the downward API."""
