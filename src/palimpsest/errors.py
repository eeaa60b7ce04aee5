"""Every error that the library raises on purpose.

All derive from :class:`PalimpsestError`, so that a caller can tell the library's own refusals from
bugs. A refusal never leaves anything half-written.
"""


class PalimpsestError(Exception):
    """Base of all errors that this library raises on purpose."""


class InvalidMessageError(PalimpsestError, ValueError):
    """A message is not a JSON object with string ``id``, string ``role`` and array ``parts``."""


class ReservedIdError(InvalidMessageError):
    """A message id begins with a prefix that only the library may write (``compaction_``)."""


class UnknownParentError(PalimpsestError, LookupError):
    """The parent named for a message does not exist in that session."""


class UnknownMessageError(PalimpsestError, LookupError):
    """A message id does not exist in that session."""


class UnknownSessionError(PalimpsestError, LookupError):
    """A session id is not registered."""


class CorruptHistoryError(PalimpsestError):
    """Stored rows contradict each other (a parent cycle, missing continuation rows)."""


class LimitError(PalimpsestError, ValueError):
    """A value exceeds a limit of the platform; the text names the limit and the size found."""


class BindingError(PalimpsestError, TypeError):
    """A Python value of a type that SQLite in a Durable Object would silently corrupt."""


class SqlError(PalimpsestError):
    """SQLite refused a statement; the text is SQLite's."""


class UniqueViolationError(SqlError):
    """A row with this key exists already."""


class TransactionError(PalimpsestError, RuntimeError):
    """A transaction was used in a way the platform does not allow (async, or by hand)."""


class MigrationError(PalimpsestError):
    """The stored schema is newer than this library, or an upgrade could not be verified."""


class CompactionError(PalimpsestError):
    """A compaction could not be carried out; the history is unchanged."""


class ModelError(PalimpsestError):
    """A model's answer failed; subclasses tell the reasons apart."""
