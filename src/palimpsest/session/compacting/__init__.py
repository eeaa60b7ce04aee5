"""The compaction engine of a session: when a summary is made, how, and what is told of it."""
