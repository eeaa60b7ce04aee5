"""What users need to test their own agents under plain pytest."""

from palimpsest.hosts.local import LocalHost

__all__ = ["LocalHost"]
