"""An assistant with tools: it keeps an account, asks before it pays, and reminds you.

Run it as any Worker: its class is its binding. The tools are methods; what they need to keep goes
into the state, which every connected client sees at once.
"""

from typing import Any, ClassVar

from palimpsest import ChatAgent, SessionManager, ToolContext, tool
from palimpsest.actor.schedules import ScheduledRun
from palimpsest.hosts.workers import durable_object, worker_entrypoint

PAY_WITHOUT_ASKING = 20.0
"""Up to this amount a payment needs nobody's consent."""


def is_large(arguments: dict[str, Any], context: ToolContext) -> bool:
    """Whether a person has to agree to this payment."""
    return float(arguments["amount"]) > PAY_WITHOUT_ASKING


@durable_object
class Butler(ChatAgent):
    """Keeps an account for one person."""

    initial_state: ClassVar[Any] = {"expenses": [], "payments": []}

    def configure_sessions(self, sessions: SessionManager) -> None:
        """A notebook that the model writes to, and summaries above 24,000 tokens."""
        sessions.with_context("memory", description="What you know about the person.")
        sessions.compact_after(24_000)

    @tool
    async def note_expense(self, what: str, amount: float) -> dict[str, float]:
        """Write an expense down and tell the new total.

        :param what: what the money was spent on
        :param amount: in euros
        """
        expenses = [*self.state["expenses"], {"what": what, "amount": amount}]
        self.set_state({**self.state, "expenses": expenses})
        return {"total": sum(float(expense["amount"]) for expense in expenses)}

    @tool(needs_approval=is_large)
    async def pay(self, to: str, amount: float) -> str:
        """Pay somebody.

        :param to: who gets the money
        :param amount: in euros
        """
        payments = [*self.state["payments"], {"to": to, "amount": amount}]
        self.set_state({**self.state, "payments": payments})
        return f"Paid {amount:.2f} euros to {to}."

    @tool
    async def remind_me(self, text: str, minutes: float, context: ToolContext) -> str:
        """Remind the person of something later.

        :param text: what to remind them of
        :param minutes: how many minutes from now
        """
        self.schedule(minutes * 60, "remind", {"text": text, "session": context.session_id})
        return f"I will remind you in {minutes:g} minutes."

    async def remind(self, payload: dict[str, str], run: ScheduledRun) -> None:
        """Say it in the conversation in which it was asked for.

        A schedule runs at least once. The id makes a second run write the same message again.
        """
        name, text = f"reminder-{run.schedule.id}", f"Reminder: {payload['text']}"
        message = {"id": name, "role": "assistant", "parts": [{"type": "text", "text": text}]}
        session = payload["session"]
        await self.save_messages([message], session_id=session, answer=False, request_id=name)


Default = worker_entrypoint(cors=True)
