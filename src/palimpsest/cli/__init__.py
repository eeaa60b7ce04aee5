"""The commands of ``python -m palimpsest``; each module is one command."""
