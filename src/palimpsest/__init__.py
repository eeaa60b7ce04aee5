"""Palimpsest: agents that remember, on Cloudflare Python Workers and on your own machines."""
