from typing import Any

class DurableObject:
    ctx: Any
    env: Any
    def __init__(self, ctx: Any, env: Any) -> None: ...

class WorkerEntrypoint:
    ctx: Any
    env: Any
    def __init__(self, ctx: Any, env: Any) -> None: ...

class Request:
    js_object: Any

def __getattr__(name: str) -> Any: ...
