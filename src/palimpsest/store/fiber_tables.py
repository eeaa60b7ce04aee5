"""The table of fibers: created with the jobs' tables, so that a wake checks one version."""

FIBERS_MIGRATION = """
    create table if not exists palimpsest_fibers (
      seq integer primary key autoincrement,
      id text not null unique,
      name text not null,
      payload text not null,
      durable integer not null,
      status text not null check
        (status in ('pending', 'running', 'completed', 'aborted', 'interrupted', 'error')),
      snapshot text,
      result text,
      error text,
      recoveries integer not null,
      created_at integer not null,
      ended_at integer
    );
    create index if not exists palimpsest_fibers_status
      on palimpsest_fibers (status, durable, seq);
"""
