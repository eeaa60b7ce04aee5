"""Make a token for an agent that asks for one (see docs/security.md)."""

from __future__ import annotations

import argparse
import os
import time

from palimpsest.auth import SECRET_VARIABLE, make_token
from palimpsest.errors import UnauthenticatedError

SUMMARY = "make a token for an agent that asks for one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The command's arguments."""
    parser.add_argument("subject", help="whom the token is for")
    parser.add_argument("--agent", action="append", help="an agent in kebab case (default: all)")
    parser.add_argument("--name", action="append", help="an object's name or pattern (default: *)")
    parser.add_argument("--hours", type=float, default=24.0, help="how long it lives (default 24)")
    parser.add_argument("--readonly", action="store_true", help="may watch and search only")


def run(options: argparse.Namespace) -> int:
    """Print the token; the secret is read from the environment, never from the command line."""
    secret = os.environ.get(SECRET_VARIABLE, "")
    if not secret:
        raise UnauthenticatedError(f"set {SECRET_VARIABLE} to the deployment's secret")
    try:
        token = make_token(
            secret,
            options.subject,
            now=int(time.time() * 1000),
            lifetime=int(options.hours * 3600),
            agents=options.agent or ("*",),
            names=options.name or ("*",),
            readonly=options.readonly,
        )
    except ValueError as error:
        raise UnauthenticatedError(str(error)) from error
    print(token)
    return 0
