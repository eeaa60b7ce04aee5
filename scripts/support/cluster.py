"""Instances of workerd that share a bucket and serve the same agents together."""

from __future__ import annotations

import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from support.errors import SetupError
from support.process import END_SECONDS, LoggedProcess
from support.worker_config import WorkerDefinition, render_config
from support.workerd import ensure_snapshot, free_port, serve_command

KEY_BYTES = 32
"""The shortest key that workerd accepts for the traffic between instances."""

READY_SECONDS = 60.0

INHERITED_SECRETS = ("PALIMPSEST_AUTH_SECRET", "PALIMPSEST_ALLOWED_ORIGINS", "PALIMPSEST_MODEL")
"""Variables that an instance hands to the Worker when they are set in its own environment."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """What one instance needs to know. Addresses are ``host:port``.

    All instances of a cluster have the same bucket, key and Worker; each has its own addresses and
    its own state directory, which is only a working copy: the bucket is what lasts.
    """

    bucket: str
    """``s3://bucket/prefix`` (R2, MinIO, ... too) or ``gs://bucket/prefix``."""

    key: str = field(repr=False)
    """Known to the instances only, at least 32 bytes."""

    address: str
    """Where other instances reach this one; a private network only, traffic is not encrypted."""

    http: str
    """Where clients, or the load balancer, reach it."""

    advertise: str | None = None
    """The address that others are told, where it is not ``address``."""

    endpoint: str | None = None
    """The bucket's endpoint, for stores that are not Amazon's."""

    region: str = "auto"
    stop_timeout_ms: int = 8000
    time_divisor: int = 1
    """Divides the cluster's waits; above 1 only in tests."""

    def check(self) -> ClusterSettings:
        """The settings, if they can be used.

        :raises SetupError: one of them cannot.
        """
        scheme, _, place = self.bucket.partition("://")
        if scheme not in ("s3", "gs") or not place.split("/")[0]:
            raise SetupError(f"the bucket is s3://name/prefix or gs://name/prefix: {self.bucket}")
        if len(self.key.encode()) < KEY_BYTES:
            raise SetupError(f"the cluster's key needs at least {KEY_BYTES} bytes")
        told = [] if self.advertise is None else [("advertise", self.advertise)]
        for label, value in (("address", self.address), ("http", self.http), *told):
            host, separator, port = value.rpartition(":")
            if not separator or not host or not port.isdecimal() or not 0 < int(port) < 65_536:
                raise SetupError(f"{label} is host:port, got {value!r}")
        if self.endpoint and not self.endpoint.startswith(("http://", "https://")):
            raise SetupError(f"the endpoint is http(s)://host, got {self.endpoint!r}")
        if self.stop_timeout_ms < 0:
            raise SetupError(f"the time to stop in is not negative, got {self.stop_timeout_ms} ms")
        if self.address.startswith(("0.0.0.0:", "[::]:", "*:")) and not self.advertise:
            raise SetupError("an address on every interface needs advertise: host:port")
        return self

    def render(self) -> str:
        """The field ``cluster`` of workerd's configuration."""
        options = [f"aws_region={self.region}"] if self.bucket.startswith("s3://") else []
        if self.endpoint:
            options.append(f"aws_endpoint={self.endpoint}")
        fields = [
            f"bucket = {_text(self.bucket)}",
            f"bucketOptions = [{', '.join(_text(option) for option in options)}]",
            f"address = {_text(self.address)}",
            f"key = {_text(self.key)}",
            f"stopTimeoutMs = {self.stop_timeout_ms}",
        ]
        if self.advertise:
            fields.append(f"advertise = {_text(self.advertise)}")
        if self.time_divisor != 1:
            fields.append(f"unsafeTimeDivisor = {self.time_divisor}")
        return f"cluster = ({', '.join(fields)}),"


def _text(value: str) -> str:
    if any(character < " " for character in value):
        raise SetupError("cluster settings hold no control characters")
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def write_config(worker: WorkerDefinition, settings: ClusterSettings, directory: Path) -> Path:
    """Write an instance's configuration, readable by its owner only, and return its path.

    :raises SetupError: the settings cannot be used.
    """
    settings.check()
    state = directory / "state"
    state.mkdir(parents=True, exist_ok=True)
    text = render_config(
        worker, directory, state.resolve(), address=settings.http, extra=settings.render()
    )
    path = directory / "config.capnp"
    path.touch(mode=0o600)
    path.chmod(0o600)
    path.write_text(text, encoding="utf-8")
    return path


class Instance(LoggedProcess):
    """One running workerd of a cluster."""

    def __init__(
        self,
        worker: WorkerDefinition,
        settings: ClusterSettings,
        directory: Path,
        *,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """
        :param directory: for the configuration, the log and the working copies of databases.
        :param environment: added to this process's (credentials of the bucket).
        """
        self.worker = worker.with_development_flag()
        self.settings = settings
        self.directory = directory
        super().__init__(directory / "workerd.log", settings.stop_timeout_ms / 1000 + END_SECONDS)
        self._environment = {**os.environ, **(environment or {})}

    @property
    def url(self) -> str:
        """Where clients reach this instance."""
        return f"http://{self.settings.http}"

    def start(self) -> None:
        """Start and wait until the instance serves and holds its lease.

        :raises SetupError: it ended, or was not ready in time.
        """
        snapshot = ensure_snapshot(self.worker)
        config = write_config(self.worker, self.settings, self.directory)
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                serve_command(config, snapshot), stdout=log, stderr=log, env=self._environment
            )
        deadline = time.monotonic() + READY_SECONDS
        while not self.ready():
            if self.process.poll() is not None:
                raise SetupError(f"the instance ended while starting:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise SetupError(f"not ready within {READY_SECONDS:.0f} s:\n{self.log_tail()}")
            time.sleep(0.05)

    def ready(self) -> bool:
        """Whether it serves, holds its lease and is not stopping."""
        try:
            url = f"http://{self.settings.advertise or self.settings.address}/ready"
            with urllib.request.urlopen(url, timeout=2) as response:
                return response.status == 200
        except (OSError, urllib.error.HTTPError):
            return False

    def drain(self) -> None:
        """Ask it to hand its objects to the others and end (SIGTERM); waits until it ended."""
        self.stop()


def local_settings(
    bucket: str, key: str, endpoint: str, *, time_divisor: int = 1, stop_timeout_ms: int = 8000
) -> ClusterSettings:
    """Settings of an instance on free ports of the loopback interface."""
    return ClusterSettings(
        bucket=bucket,
        key=key,
        address=f"127.0.0.1:{free_port()}",
        http=f"127.0.0.1:{free_port()}",
        endpoint=endpoint,
        region="us-east-1",
        stop_timeout_ms=stop_timeout_ms,
        time_divisor=time_divisor,
    )


def secret_variables() -> dict[str, str]:
    """What of this process's environment the Worker is given."""
    return {name: os.environ[name] for name in INHERITED_SECRETS if os.environ.get(name)}
