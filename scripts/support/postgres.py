"""A PostgreSQL server for tests: Debian's binaries, a directory of its own, a socket only."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from support.errors import SetupError
from support.setup import install_from_debian

VARIABLE = "PALIMPSEST_POSTGRES"
"""Names a directory with ``initdb`` and ``postgres``."""

_START_SECONDS = 60.0


def find_postgres() -> Path | None:
    """The directory of a PostgreSQL server's programs, the newest version first."""
    named = os.environ.get(VARIABLE)
    if named:
        return Path(named)
    installed = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    for program in sorted(installed, key=lambda path: int(path.parts[-3]), reverse=True):
        return program.parent
    found = shutil.which("initdb")
    return Path(found).resolve().parent if found else None


def ensure_postgres() -> Path:
    """The server's programs, installed from Debian's packages where there are none.

    :raises SetupError: there are none and they cannot be installed here.
    """
    found = find_postgres()
    if found is None and install_from_debian(["postgresql"]):
        found = find_postgres()
    if found is None:
        raise SetupError(
            "the Postgres tests need a server's programs: apt-get install postgresql, or name "
            f"their directory in the environment variable {VARIABLE}"
        )
    return found


class PostgresServer:
    """One server with an empty database ``postgres``; nothing of it outlives :meth:`stop`."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self._user = _unprivileged()
        self.directory = Path(tempfile.mkdtemp(prefix="palimpsest-postgres-"))
        self._log = self.directory / "log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        """The address of the database ``postgres`` for a driver."""
        return self.address_of("postgres")

    def address_of(self, database: str) -> str:
        """The address of a database for a driver."""
        return f"postgresql://postgres@/{database}?host={self.directory}"

    def start(self) -> None:
        """Make the database and start the server.

        :raises SetupError: it does not start; the text holds its log.
        """
        data = self.directory / "data"
        if self._user is not None:
            shutil.chown(self.directory, *self._user)
        make = ["initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync"]
        with self._log.open("wb") as log:
            made = self._run([*make, "--locale=C.UTF-8"], log)
            if made.wait() != 0:
                raise SetupError(f"initdb failed:\n{self._log.read_text()}")
            options = [
                f"unix_socket_directories={self.directory}",
                "listen_addresses=",
                "fsync=off",
            ]
            settings = [word for option in options for word in ("-c", option)]
            self._process = self._run(["postgres", "-D", data, *settings], log)
        end = time.monotonic() + _START_SECONDS
        while b"ready to accept connections" not in self._log.read_bytes():
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise SetupError(f"postgres does not start:\n{self._log.read_text()}")
            time.sleep(0.02)

    def stop(self) -> None:
        """End the server at once and remove its directory."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _run(self, command: list[str | Path], log: object) -> subprocess.Popen[bytes]:
        program, *arguments = command
        user, group = self._user or (None, None)
        return subprocess.Popen(
            [str(self._programs / program), *map(str, arguments)],
            cwd=self.directory,
            stdin=subprocess.DEVNULL,
            stdout=log,  # type: ignore[arg-type]
            stderr=subprocess.STDOUT,
            user=user,
            group=group,
            extra_groups=None if user is None else [],
        )


def _unprivileged() -> tuple[int, int] | None:
    """Who runs the server: it refuses to run as root. None for whoever runs the tests."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            found = pwd.getpwnam(name)
        except KeyError:
            continue
        return found.pw_uid, found.pw_gid
    raise SetupError("a PostgreSQL server does not run as root, and there is no other user")
