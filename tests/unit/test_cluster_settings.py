"""What a cluster's instance is told, and what is refused before anything starts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.cluster import ClusterSettings, write_config
from support.errors import SetupError
from support.worker_config import WorkerDefinition

SETTINGS = ClusterSettings(
    bucket="s3://agents/prod",
    key="k" * 64,
    address="10.0.0.5:7000",
    http="0.0.0.0:8080",
    endpoint="https://s3.example",
)


def test_configuration_names_bucket_addresses_and_key_and_is_private(tmp_path: Path) -> None:
    worker = WorkerDefinition("w", [], "2026-10-01", ["python_workers"], {"A": "A"})
    path = write_config(worker, SETTINGS, tmp_path)
    text = path.read_text()
    assert 'bucket = "s3://agents/prod"' in text
    assert '"aws_endpoint=https://s3.example"' in text
    assert 'address = "10.0.0.5:7000"' in text
    assert 'address = "0.0.0.0:8080"' in text
    assert f'key = "{"k" * 64}"' in text
    assert "unsafeTimeDivisor" not in text
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        (replace(SETTINGS, bucket="agents"), "the bucket is s3://"),
        (replace(SETTINGS, bucket="s3://"), "the bucket is s3://"),
        (replace(SETTINGS, bucket="s3:///prefix"), "the bucket is s3://"),
        (replace(SETTINGS, address="10.0.0.5:99999"), "address is host:port"),
        (replace(SETTINGS, advertise="10.0.0.5"), "advertise is host:port"),
        (replace(SETTINGS, endpoint="file:///etc"), "endpoint is http"),
        (replace(SETTINGS, stop_timeout_ms=-1), "not negative"),
        (replace(SETTINGS, key="short"), "at least 32 bytes"),
        (replace(SETTINGS, address="10.0.0.5"), "address is host:port"),
        (replace(SETTINGS, http=":80"), "http is host:port"),
        (replace(SETTINGS, address="0.0.0.0:7000"), "needs advertise"),
    ],
)
def test_unusable_settings_are_refused(
    settings: ClusterSettings, says: str, tmp_path: Path
) -> None:
    worker = WorkerDefinition("w", [], "2026-10-01", ["python_workers"])
    with pytest.raises(SetupError, match=says):
        write_config(worker, settings, tmp_path)
    assert not (tmp_path / "config.capnp").exists()


def test_key_never_shows_in_a_text_form() -> None:
    assert "kkkk" not in repr(SETTINGS)
