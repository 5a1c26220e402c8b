"""What happens to a request before it is sent to a server: who is it, may it, where to."""
