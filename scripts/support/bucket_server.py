"""An S3-compatible bucket in memory, served by ``moto``: for tests and for trying a cluster."""

from __future__ import annotations

import subprocess
import time
import urllib.request
from types import TracebackType

from support.errors import SetupError
from support.paths import VENV
from support.workerd import free_port

START_SECONDS = 30.0


class BucketServer:
    """A running server with one bucket; its content ends with it."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket
        self._port = free_port()
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        """The server's address."""
        return f"http://127.0.0.1:{self._port}"

    @property
    def credentials(self) -> dict[str, str]:
        """Environment variables with which a client reaches it."""
        return {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}

    def __enter__(self) -> BucketServer:
        command = [
            str(VENV / "bin" / "python"),
            "-m",
            "moto.server",
            "-H",
            "127.0.0.1",
            "-p",
            str(self._port),
        ]
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                request = urllib.request.Request(f"{self.endpoint}/{self._bucket}", method="PUT")
                with urllib.request.urlopen(request, timeout=5):
                    return self
            except OSError as error:
                if self._process.poll() is not None:
                    raise SetupError(
                        "the bucket server did not start: pip install 'moto[server]'"
                    ) from error
                if time.monotonic() > deadline:
                    self._process.kill()
                    raise SetupError(f"no bucket within {START_SECONDS:.0f} s") from error
                time.sleep(0.1)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(timeout=10)
