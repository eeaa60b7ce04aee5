"""The browser for the tests of the page."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from support.errors import SetupError
from support.setup import install_from_debian

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find_chromium() -> Path | None:
    """A Chromium on this machine: ``PALIMPSEST_CHROMIUM``, else one on the path."""
    named = os.environ.get("PALIMPSEST_CHROMIUM")
    if named:
        return Path(named)
    for name in _NAMES:
        found = shutil.which(name)
        if found:
            return Path(found)
    return None


def ensure_chromium() -> Path:
    """Chromium's executable, installed from Debian's packages where there is none.

    :raises SetupError: there is none and it cannot be installed here.
    """
    found = find_chromium()
    if found is None and install_from_debian(["chromium"]):
        found = find_chromium()
    if found is None:
        raise SetupError(
            "the browser tests need Chromium: apt-get install chromium, or name one in the "
            "environment variable PALIMPSEST_CHROMIUM"
        )
    return found
