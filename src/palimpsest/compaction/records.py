"""Records of a chat's canonical log and the checkpoints taken of it.

The log's record kinds, field names and meaning are those of the compaction article's chat system.
JSON is camelCase (``toolCalls``); Python attributes are snake_case and either form is accepted.
Records have a ``sequence``, counted from 0 in each chat, and are never deleted by compaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ModelWrapValidatorHandler,
    model_validator,
)
from pydantic.alias_generators import to_camel

from palimpsest.compaction.code_change import CodeChange

Sequence0 = Annotated[int, Field(ge=0)]
"""A position in a chat's log."""

Identifier = int | str
"""An id given by the surrounding system: a number or a text."""


class Record(BaseModel):
    """Base of all data here: camelCase JSON, snake_case attributes, unknown fields ignored."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True
    )


class AiChatAuthorInfo(Record):
    """Who wrote a record: a person, the agent (``id`` is the model), or a program (gadget)."""

    type: Literal["user", "agent", "gadget"] = "user"
    id: Identifier = ""
    name: str = ""


class Capsule(Record):
    """A reference inside a user's text to something outside, bound to a name when used."""

    position: int = 0
    length: int = 0
    gatekeeper_id: Identifier
    description: str = ""
    vendor_id: Identifier | None = None
    binding_name: str | None = None


class AttachmentRef(Record):
    """A file attached to a message; ``size`` in bytes, the content stored elsewhere."""

    id: Identifier
    mime_type: str = "application/octet-stream"
    name: str | None = None
    size: int = 0
    content: str | None = None


class AiToolCall(Record):
    """A tool call of an agent's step with its outcome; ``error`` is set where it failed."""

    tool_call_id: str = ""
    tool_name: str = ""
    input: Any = None
    output: Any = None
    error: str | None = None


def _exactly_true(value: object) -> object:
    """A 1 equals ``True`` and is not it: a foreign command must not pass for a built-in one."""
    if value is not True:
        raise ValueError("builtin is true for built-in commands")
    return value


class BuiltinCommand(Record):
    """The id of a slash command that the system itself provides."""

    builtin: Annotated[Literal[True], BeforeValidator(_exactly_true)]
    command_id: str


class GatekeeperCommand(Record):
    """The id of a slash command that an integration provides."""

    gatekeeper_id: Identifier = ""
    command_id: str = ""
    builtin: Any = None


class SlashCommandRequest(Record):
    """A slash command as it was typed."""

    id: BuiltinCommand | GatekeeperCommand
    args: str | dict[str, Any] | list[Any] = ""
    command_position: int | None = None


class ChatGadgetPin(Record):
    """The version of one gadget's code that a chat works on; immutable."""

    gadget_id: Identifier
    base_commit: str


class CreatedGadget(Record):
    """A gadget made by a change, and the name it is bound to."""

    gadget_id: Identifier
    title: str = ""
    binding_name: str | None = None


class MergedCommit(Record):
    """What a merge wrote for one gadget."""

    gadget_id: Identifier
    commit_id: str


class AiChatMessage(Record):
    """One record of a chat's log. Validating this class gives the subclass that ``type`` names.

    :raises pydantic.ValidationError: an unknown ``type`` or a field that is missing or wrong.
    """

    kinds: ClassVar[dict[str, type[AiChatMessage]]] = {}

    chat_id: Identifier = 0
    sequence: Sequence0
    timestamp: int | float | str = 0
    author: AiChatAuthorInfo = AiChatAuthorInfo()

    def __new__(cls, /, **data: Any) -> AiChatMessage:
        """Constructing the base makes the subclass that ``type`` names; Python then runs its
        ``__init__`` because the object is an instance of this class."""
        target: Any = cls
        if cls is AiChatMessage:
            target = cls.kinds.get(str(data.get("type")), cls)
        return super().__new__(target)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        cls.kinds[str(cls.model_fields["type"].default)] = cls

    @model_validator(mode="wrap")
    @classmethod
    def _choose_kind(
        cls, value: Any, handler: ModelWrapValidatorHandler[AiChatMessage]
    ) -> AiChatMessage:
        if isinstance(value, cls) and type(value) is not AiChatMessage:
            return value
        if cls is AiChatMessage and isinstance(value, Mapping):
            data = cast("Mapping[str, Any]", value)
            kind = cls.kinds.get(str(data.get("type")))
            if kind is None:
                known = ", ".join(sorted(cls.kinds))
                raise ValueError(f"unknown record type {data.get('type')!r}, known: {known}")
            return kind.model_validate(dict(data))
        return handler(value)


class TextMessage(AiChatMessage):
    """What a person, a program or the agent said; an agent's step carries its tool calls."""

    type: Literal["message"] = "message"
    message: str = ""
    reasoning: str | None = None
    tool_calls: list[AiToolCall] = []
    capsules: list[Capsule] = []
    attachments: list[AttachmentRef] = []


class SlashCommandMessage(AiChatMessage):
    """A slash command; ``/compact`` is the built-in one."""

    type: Literal["slashCommand"] = "slashCommand"
    request: SlashCommandRequest
    skill_name: str | None = None


class ChangesMessage(AiChatMessage):
    """Edits proposed by the agent or made by the user; each has a change id by its order."""

    type: Literal["changes"] = "changes"
    change: CodeChange | None = None
    pins: list[ChatGadgetPin] = []
    conversion_boundary: bool = False
    created_gadgets: list[CreatedGadget] = []
    added_bindings: list[dict[str, Any]] = []
    mainline_merge: dict[str, Any] | None = None


class MergeMessage(AiChatMessage):
    """Accepts every proposed change up to ``merge_through``, inclusive."""

    type: Literal["merge"] = "merge"
    merge_through: int
    commits: list[MergedCommit] = []
    epoch_boundary: bool = False


class RevertMessage(AiChatMessage):
    """Takes back every proposed change from ``revert_from`` on, inclusive."""

    type: Literal["revert"] = "revert"
    revert_from: Sequence0


class ActionMessage(AiChatMessage):
    """An action that was run outside the chat; contributes nothing to a prompt."""

    type: Literal["action"] = "action"
    action_id: Identifier = ""
    action_log: Any = None


class UseGadgetMessage(AiChatMessage):
    """The user opened a gadget; contributes nothing to a prompt."""

    type: Literal["useGadget"] = "useGadget"


class ErrorMessage(AiChatMessage):
    """A turn that failed; shown to people, not to the model."""

    type: Literal["error"] = "error"
    message: str = ""
    code: str | int | None = None


class AgentCallbackMessage(AiChatMessage):
    """A program called the agent; the arguments are bound to the next free ``PARAMS_n``."""

    type: Literal["agentCallback"] = "agentCallback"
    method_name: str = ""
    args_summary: str = ""


class AgentNudgeMessage(AiChatMessage):
    """A text that makes the agent go on."""

    type: Literal["agentNudge"] = "agentNudge"
    text: str = ""


class ConnectionRequestMessage(AiChatMessage):
    """The agent asks for access to something; ``state`` changes in place when answered."""

    type: Literal["connectionRequest"] = "connectionRequest"
    request_id: Identifier = ""
    vendor_id: Identifier = ""
    vendor_name: str = ""
    resource_title: str | None = None
    resource_url: str | None = None
    reason: str = ""
    state: Literal["pending", "accepted", "denied"] = "pending"
    gatekeeper_id: Identifier | None = None
    binding_name: str | None = None


class WorkpieceBinding(Record):
    """A name bound to a thing that the agent can use."""

    type: Literal["workpiece"] = "workpiece"
    id: Identifier


class ValueBinding(Record):
    """A name bound to the arguments of the callback with this sequence."""

    type: Literal["value"] = "value"
    message_sequence: Sequence0


ChatBindingEntry: TypeAlias = Annotated[
    WorkpieceBinding | ValueBinding, Field(discriminator="type")
]
"""What a name stands for."""

ChatBindings: TypeAlias = list[tuple[str, ChatBindingEntry]]
"""Names and what they stand for, in the order in which they were bound."""


class ChangeBatch(Record):
    """One proposed change: the sequence of its record, and its edits where it has any."""

    sequence: int
    change: CodeChange | None = None


class CompactionState(Record):
    """The replay state below a boundary: what the tail alone could not give."""

    chat_bindings: ChatBindings = []
    next_change_id: int = 0
    pins: list[ChatGadgetPin] | None = None
    epoch: int | None = None
    proposed_change: CodeChange | None = None


class CompactionCheckpoint(CompactionState):
    """An immutable stand-in for every record below ``compacted_to`` (which is still replayed)."""

    chat_id: Identifier = 0
    compacted_to: Sequence0
    summary: str
    from_sequence: int = 0
    created_at: int = 0
    model_id: str | None = None
    requested_by_sequence: int | None = None
    carried_requests: list[int] = []
    input_tokens: int | None = None
    summary_tokens: int | None = None


class ModelLimits(Record):
    """What fits in one request, in tokens; the reserved answer is already taken off."""

    input_budget: int
    max_output_tokens: int | None = None


RecordLike: TypeAlias = AiChatMessage | Mapping[str, Any]
"""A record, or its JSON."""


def parse_record(value: RecordLike) -> AiChatMessage:
    """One record from its JSON.

    :raises pydantic.ValidationError: it is not a record of a known type.
    """
    return value if isinstance(value, AiChatMessage) else AiChatMessage.model_validate(value)


def parse_records(values: Iterable[RecordLike]) -> list[AiChatMessage]:
    """Records from their JSON, in the order given."""
    return [parse_record(value) for value in values]


def parse_checkpoint(
    value: CompactionState | Mapping[str, Any] | None,
) -> CompactionState | None:
    """A checkpoint, or a bare replay state, from its JSON."""
    if value is None or isinstance(value, CompactionState):
        return value
    kind = CompactionCheckpoint if "summary" in value else CompactionState
    return kind.model_validate(value)
