"""Sessions over storage of one's own: the provider interface and what stands on it."""
