"""The actor: identity, state, callable methods, connections, schedules, queue and long work."""
