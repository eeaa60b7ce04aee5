"""``python -m palimpsest COMMAND``: chat with an agent, look into a conversation, move it."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

from palimpsest.errors import PalimpsestError

SUMMARY = "Chat with an agent, look into a conversation, move it."

COMMANDS = {
    "chat": "palimpsest.cli.chat",
    "inspect": "palimpsest.cli.inspect",
    "search": "palimpsest.cli.search",
    "export": "palimpsest.cli.export",
    "import": "palimpsest.cli.importing",
    "token": "palimpsest.cli.token",
}
"""Each command's module; it has ``SUMMARY``, ``add_arguments(parser)`` and ``run(options)``."""


CLOSED_PIPE = 141
"""The exit code where nobody reads the output any more: what a shell gives for SIGPIPE."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code.

    That is 2 for a refusal with its reason and :data:`CLOSED_PIPE` for a closed pipe.
    """
    parser = argparse.ArgumentParser(prog="palimpsest", description=SUMMARY)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, module_name in COMMANDS.items():
        try:
            module = importlib.import_module(module_name)
        except ModuleNotFoundError as error:
            if (error.name or "").startswith("palimpsest"):
                raise
            commands.add_parser(name, help=f"needs the package {error.name}").set_defaults(
                missing=error.name
            )
            continue
        description = getattr(module, "DESCRIPTION", module.__doc__)
        command = commands.add_parser(name, help=module.SUMMARY, description=description)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    options, rest = parser.parse_known_args(arguments)
    missing = getattr(options, "missing", None)
    if missing is not None:
        print(f"palimpsest: install {missing}: pip install 'palimpsest[cli]'", file=sys.stderr)
        return 2
    if len(rest) == 1 and not rest[0].startswith("-") and getattr(options, "message", "") is None:
        options.message = rest.pop()  # argparse gives up an optional argument that follows options
    if rest:
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    try:
        code = int(options.run(options))
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _forget_output()
        return CLOSED_PIPE
    except (PalimpsestError, OSError) as error:
        print(f"palimpsest: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _forget_output() -> None:
    """Let what is still to be written go nowhere: the interpreter flushes once more at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


if __name__ == "__main__":
    sys.exit(main())
