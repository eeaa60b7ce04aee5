"""Every error that the library raises on purpose.

All derive from :class:`PalimpsestError`, so that a caller can tell the library's own refusals from
bugs. A refusal never leaves anything half-written.
"""


class PalimpsestError(Exception):
    """Base of all errors that this library raises on purpose."""


def error_words(error: BaseException) -> str:
    """An error's own words, or its class where it has none or cannot say them."""
    try:
        return str(error) or type(error).__name__
    except Exception:
        return type(error).__name__


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


class SessionProviderError(PalimpsestError):
    """A session's storage provider lacks what is asked of it, or broke its contract."""


class CorruptHistoryError(PalimpsestError):
    """Stored rows contradict each other (a parent cycle, missing continuation rows)."""


class LimitError(PalimpsestError, ValueError):
    """A value exceeds a limit of the platform; the text names the limit and the size found."""


class SessionNameError(LimitError):
    """A session's id or name is empty, too long or holds what none may hold."""


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


class CompactionRangeError(CompactionError, ValueError):
    """An overlay's ends are unknown, reversed or on different branches, or its text is blank."""


class CompactionOptionError(CompactionError, ValueError):
    """A threshold, budget or function given for compaction cannot be used; the text says why."""


class SummaryRefusedError(CompactionError):
    """A summarizer's answer was not usable as a summary; the text says why."""


class ModelError(PalimpsestError):
    """A model's answer failed; subclasses tell the reasons apart.

    :param message: what happened, without secrets.
    :param status: the HTTP status of the answer, None where there was none.
    :param retry_after: seconds that the server asks to wait, None where it does not say.
    """

    retryable = False
    """Whether sending the same request again may succeed."""

    def __init__(
        self, message: str, *, status: int | None = None, retry_after: float | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class ContextOverflowError(ModelError):
    """The request is larger than the model's context window."""


class RateLimitError(ModelError):
    """The provider refuses for now because of too many requests or tokens."""

    retryable = True


class RefusalError(ModelError):
    """The model or the provider's filter refused to answer."""


class AuthenticationError(ModelError):
    """The key is missing, wrong, out of credit, or not allowed to use this model."""


class ModelRequestError(ModelError):
    """The provider says that the request is wrong (any other 4xx)."""


class ModelUnavailableError(ModelError):
    """The provider failed (5xx) or is overloaded."""

    retryable = True


class ModelNetworkError(ModelError):
    """The network failed before an answer or in the middle of one."""

    retryable = True


class ModelTimeoutError(ModelNetworkError):
    """No answer, or no next piece of it, within the time limit."""


class ModelResponseError(ModelError):
    """The answer is not what the provider documents: broken JSON, a stream that just ends."""

    retryable = True


class AbortedError(PalimpsestError):
    """The work was stopped on request; the text is the reason."""


class ToolError(PalimpsestError):
    """A tool could not be called; the text is what the model is told."""


class ToolDefinitionError(PalimpsestError, TypeError):
    """A function cannot be made a tool (an untyped parameter, a name no provider accepts)."""


class ConfigurationError(PalimpsestError, ValueError):
    """A variable of the environment has a value that cannot be used; the text names it."""


class ContextBlockError(PalimpsestError, ValueError):
    """A context block cannot be written, loaded or searched as asked; the text says why."""


class JobError(PalimpsestError, ValueError):
    """A durable job, schedule or queue item cannot be taken as asked; the text says why."""


class CallError(PalimpsestError):
    """A callable method could not be called, or failed; the text is safe to show to a client."""


class ConnectionStateError(PalimpsestError):
    """A connection may not do this (it is readonly), or its stored state is too large."""


class StateRejectedError(PalimpsestError, ValueError):
    """A new agent state was refused by validation or is too large; the old one stands."""


class UnauthenticatedError(PalimpsestError, PermissionError):
    """A request came without a valid token: answered with 401, or by closing with 4401."""


class ForbiddenError(PalimpsestError, PermissionError):
    """A valid token, or a page's origin, does not reach this agent: 403, or closing with 4403."""


class InvalidImportError(PalimpsestError, ValueError):
    """What was given to import cannot be read; the text names the line or message."""


class BusyError(PalimpsestError):
    """Something that only one may do at a time is being done, and the caller would not wait."""


class DestroyedError(PalimpsestError):
    """The agent was destroyed; the next event finds a new, empty one."""


class SearchError(PalimpsestError):
    """The search index failed; never shown as an empty result."""


class InvalidSearchError(SearchError, ValueError):
    """A search was asked for with a query, limit, role, time or path that has no meaning."""


class ModelConfigurationError(PalimpsestError, ValueError):
    """The deployment's variables name no usable model; the text names the variable."""
