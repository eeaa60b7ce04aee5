from typing import Any

XMLHttpRequest: Any
crossOriginIsolated: Any

def __getattr__(name: str) -> Any: ...
