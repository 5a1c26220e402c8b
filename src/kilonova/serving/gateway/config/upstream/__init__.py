"""Where requests are sent: clusters, their endpoints, and how one of them is chosen."""
