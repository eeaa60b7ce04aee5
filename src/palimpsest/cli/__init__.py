"""Commands for the terminal: ``python -m palimpsest COMMAND``."""
