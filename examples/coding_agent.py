"""A coding-style agent: edits are proposals in a log, and checkpoints keep its prompt short.

Beside the conversation it keeps the log of the compaction article. The files are not stored: they
are replayed from the newest checkpoint and what follows, as if from the whole log.
"""

from typing import Any

from palimpsest import ChatAgent, Message, ToolContext, callable_method, tool
from palimpsest.chat.turns import Turn
from palimpsest.compaction import budget_ratio as article
from palimpsest.hosts.workers import durable_object, worker_entrypoint
from palimpsest.messages import text_of
from palimpsest.store.checkpoints import CheckpointStore

INPUT_BUDGET = 8_000  # tokens of the log; at 85 % of it a checkpoint is made unasked


@durable_object
class Coder(ChatAgent):
    """Writes files, takes edits back, and compacts its log with ``/compact``."""

    async def on_start(self) -> None:
        self.log = CheckpointStore(self.host.sql)

    def record(self, chat: str, kind: str, **fields: Any) -> int:
        """Append one record to a chat's log and return its sequence."""
        known = {"type": kind, "chatId": chat, "sequence": self.log.next_sequence(chat)}
        return self.log.append_record({**known, **fields, "timestamp": self.host.now()}).sequence

    @tool
    async def write_file(self, path: str, text: str, context: ToolContext) -> dict[str, int]:
        """Propose a file's new content. The edit's number can be given to undo_edits."""
        edit = {"project": [[path, {"set": text}]]}
        return {"edit": self.record(context.session_id, "changes", change=edit)}

    @tool
    async def undo_edits(self, first: int, context: ToolContext) -> str:
        """Take back the edit with this number and all that came after it."""
        self.record(context.session_id, "revert", revertFrom=first)
        return "Taken back."

    @callable_method
    def files(self, chat: str = "") -> dict[str, str]:
        """The files as they stand now."""
        change = self.log.replay(chat).state.proposed_change or {}
        return {path: edit["set"] for path, edit in change.get("project", []) if "set" in edit}

    @callable_method
    def checkpoints(self, chat: str = "") -> list[tuple[int, str]]:
        """Where the log was compacted, and with which summary."""
        return [(made.compacted_to, made.summary) for made in self.log.list_checkpoints(chat)]

    def on_chat_message(self, turn: Turn) -> Any:
        """Write what was asked for into the log before it is answered."""
        if turn.message is not None and turn.base is None and not turn.recovering:
            self.record(turn.session_id, "message", message=text_of(turn.message))
        return super().on_chat_message(turn)

    async def on_chat_response(
        self, turn: Turn, message: Message, outcome: str, error: str | None
    ) -> None:
        """Write the answer into the log; take a checkpoint if asked to, or if the log has grown."""
        chat = turn.session_id
        if turn.message is not None and text_of(turn.message).strip() == "/compact":
            command = {"builtin": True, "commandId": "compact"}
            self.record(chat, "slashCommand", request={"id": command})
        else:
            author = {"type": "agent", "id": self.current_model.name}
            self.record(chat, "message", message=text_of(message), author=author)
        checkpoint = self.log.get_active_compaction(chat)
        tail = self.log.list_chat_tail(chat, checkpoint)
        projection = article.project_chat_messages(tail, checkpoint)
        tokens = article.estimate_projection_tokens(projection)
        result = await article.process_turn(tail, tokens, {"inputBudget": INPUT_BUDGET}, checkpoint)
        if result.status == "compacted" and result.checkpoint is not None:
            self.log.commit_chat_compaction(result.checkpoint)


Default = worker_entrypoint(cors=True)
