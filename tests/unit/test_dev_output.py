"""What ``scripts/dev`` shows of wrangler's output."""

from __future__ import annotations

from support.dev_output import DevOutput

_TRACEBACK = """\
  File "/session/metadata/entry.py", line 23
    async def count(self, text: str -> int:
                                    ^^
SyntaxError: invalid syntax
  at null.<anonymous> (pyodideRuntime-internal:pyodide.asm:2:569202) in new_error
"""

_WARNING = (
    'A DurableObjectNamespace in the config referenced the class "Assistant", but no such Durable '
    "Object class is exported from the worker."
)

_FAILED_START = f"""\
⎔ Reloading local server...
no memory snapshot of this code can be made: workerd ended while starting:
service main: Uncaught Error: PythonError: Traceback (most recent call last):
{_TRACEBACK}
workerd/server/server/worker.rs:468: warning: {_WARNING}
\x1b[31m✘ \x1b[41;31m[\x1b[41;97mERROR\x1b[41;31m]\x1b[0m \x1b[1mservice core:user:palimpsest: \
Uncaught Error: PythonError: Traceback (most recent call last):\x1b[0m
{_TRACEBACK}
\x1b[31m✘ \x1b[41;31m[\x1b[41;97mERROR\x1b[41;31m] The Workers runtime failed to start.
  Runtime stderr:
  no memory snapshot of this code can be made: workerd ended while starting:
  {{"timestamp":"1","level":"error","message":"service core:user:palimpsest: Uncaught Error"}}
If you think this is a bug then please create an issue at https://example.com/
"""


def shown(output: DevOutput, text: str) -> list[str]:
    return [line for line in map(output.shown, text.split("\n")) if line is not None]


def test_an_error_at_a_start_is_shown_once_with_paths_that_exist() -> None:
    output = DevOutput(colors=False)
    expected = [
        "⎔ Reloading local server...",
        "no memory snapshot of this code can be made: workerd ended while starting:",
        "service main: Uncaught Error: PythonError: Traceback (most recent call last):",
        '  File "src/entry.py", line 23',
        "    async def count(self, text: str -> int:",
        "                                    ^^",
        "SyntaxError: invalid syntax",
    ]
    assert shown(output, _FAILED_START) == expected
    assert shown(output, _FAILED_START) == expected  # the next start tells it again


def test_a_class_that_is_not_exported_is_told_where_nothing_else_went_wrong() -> None:
    assert shown(DevOutput(colors=False), _WARNING) == [_WARNING]


def test_what_a_running_worker_writes_is_shown_each_time() -> None:
    output = DevOutput(colors=False)
    log = "Uncaught Error: no\nmine\nmine"
    assert shown(output, f"⎔ Local server updated and ready\n{log}")[1:] == log.split("\n")
    assert shown(output, log) == log.split("\n")


def test_colors_are_kept_for_a_terminal_and_places_are_named_there_too() -> None:
    line = "\x1b[1m/session/metadata/python_modules/pydantic/main.py\x1b[0m"
    assert DevOutput(colors=True).shown(line) == "\x1b[1mpython_modules/pydantic/main.py\x1b[0m"
    assert DevOutput(colors=False).shown(line) == "python_modules/pydantic/main.py"
    assert DevOutput(colors=False).shown("│ src/entry.py │") is None
