"""The Workers host: Durable Objects on Cloudflare's workerd.

Only the modules of this package import ``js``, ``pyodide`` or ``workers``. They talk to the raw
bindings: the SDK's wrappers cost about ten times as much per call and leak a reference for every
Python function handed over. What runs at import changes nothing but Python itself, so a memory
snapshot may hold it.
"""

from palimpsest.hosts.workers.bindings import (
    AgentNamespace,
    AgentStub,
    AiBinding,
    Environment,
    R2Bucket,
    RemoteError,
)
from palimpsest.hosts.workers.entrypoint import worker_entrypoint
from palimpsest.hosts.workers.host import WorkersHost
from palimpsest.hosts.workers.http import error_response, make_response, read_request
from palimpsest.hosts.workers.shell import durable_object

__all__ = [
    "AgentNamespace",
    "AgentStub",
    "AiBinding",
    "Environment",
    "R2Bucket",
    "RemoteError",
    "WorkersHost",
    "durable_object",
    "error_response",
    "make_response",
    "read_request",
    "worker_entrypoint",
]
