"""``python -m palimpsest COMMAND``: chat with an agent, look into a conversation, move it."""

from __future__ import annotations

import argparse
import importlib
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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code (2 for a refusal with its reason)."""
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
        return int(options.run(options))
    except (PalimpsestError, OSError) as error:
        print(f"palimpsest: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
