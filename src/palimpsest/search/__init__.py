"""Finding messages: a query in plain words, ranked, with snippets."""
