"""Data sets as messages; the data themselves are never kept here."""
