"""``python -m palimpsest COMMAND``: the library's commands for the terminal."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; returns its exit status."""
    parser = argparse.ArgumentParser(prog="palimpsest", description="Agents that remember.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    try:
        from palimpsest.cli import chat
    except ModuleNotFoundError as error:
        if error.name not in ("rich", "websockets"):
            raise
        print(f"palimpsest needs {error.name}: pip install 'palimpsest[cli]'", file=sys.stderr)
        return 2
    chat_parser = commands.add_parser("chat", help=chat.SUMMARY, description=chat.DESCRIPTION)
    chat.add_arguments(chat_parser)
    chat_parser.set_defaults(run=chat.run)
    options = parser.parse_args(arguments)
    return int(options.run(options))


if __name__ == "__main__":
    sys.exit(main())
