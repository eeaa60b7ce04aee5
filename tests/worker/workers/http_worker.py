"""HTTP clients inside a Durable Object, as code in tools uses them."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

from palimpsest.actor.agent import Agent
from palimpsest.hosts.interface import HttpRequest, HttpResponse
from palimpsest.hosts.workers import durable_object, worker_entrypoint


@durable_object
class Client(Agent):
    """Sends requests as it is told."""

    async def on_request(self, request: HttpRequest) -> HttpResponse:
        """Run the experiment that the query names, against the address that it gives."""
        query = {name: values[0] for name, values in parse_qs(urlsplit(request.url).query).items()}
        try:
            found: Any = await EXPERIMENTS[query["run"]](query["to"])
        except Exception as error:
            found = {"error": type(error).__name__, "text": str(error)}
        return HttpResponse(body=json.dumps(found), headers={"content-type": "application/json"})


async def urllib_get(to: str) -> Any:
    import urllib.request

    with urllib.request.urlopen(f"{to}/bytes", timeout=10) as answer:
        content = answer.read()
        return {
            "status": answer.status,
            "bytes": list(content),
            "type": answer.headers["Content-Type"],
        }


async def urllib_post(to: str) -> Any:
    import urllib.request

    request = urllib.request.Request(f"{to}/echo", headers={"X-Key": "abc"})
    with urllib.request.urlopen(request, data=b"a=1") as answer:
        return json.load(answer)


async def urllib_error(to: str) -> Any:
    import urllib.error
    import urllib.request

    try:
        urllib.request.urlopen(f"{to}/missing")
    except urllib.error.HTTPError as error:
        return {"code": error.code, "body": error.read().decode()}


async def urllib_timeout(to: str) -> Any:
    import urllib.error
    import urllib.request

    try:
        urllib.request.urlopen(f"{to}/slow", timeout=0.3)
    except urllib.error.URLError as error:
        return {"reason": type(error.reason).__name__}


async def urllib_refused(to: str) -> Any:
    import urllib.error
    import urllib.request

    try:
        urllib.request.urlopen("https://127.0.0.1:9/")
    except urllib.error.URLError as error:
        return {"reason": str(error.reason)}


async def urllib_opener(to: str) -> Any:
    import urllib.request

    opener = urllib.request.build_opener()
    inline = urllib.request.urlopen("data:text/plain,hello").read().decode()
    return {"status": opener.open(f"{to}/bytes").status, "inline": inline}


async def pyodide_http_itself(to: str) -> Any:
    import pyodide_http

    pyodide_http.patch_all()
    return {"should_patch": pyodide_http.should_patch()}


async def requests_get(to: str) -> Any:
    import requests

    answer = requests.post(f"{to}/echo", data={"a": "1"}, headers={"X-Key": "abc"}, timeout=10)
    return {"status": answer.status_code, "echo": answer.json()}


async def httpx2_get(to: str) -> Any:
    import httpx2

    async with httpx2.AsyncClient() as client:
        answer = await client.post(f"{to}/echo", content=b"a=1", headers={"X-Key": "abc"})
        return {"status": answer.status_code, "echo": answer.json()}


async def httpx2_sync(to: str) -> Any:
    import httpx2

    answer = httpx2.post(f"{to}/echo", content=b"a=1", headers={"X-Key": "abc"})
    return {"status": answer.status_code, "echo": answer.json()}


EXPERIMENTS = {
    function.__name__: function
    for function in (
        urllib_get,
        urllib_post,
        urllib_error,
        urllib_timeout,
        urllib_refused,
        urllib_opener,
        pyodide_http_itself,
        requests_get,
        httpx2_get,
        httpx2_sync,
    )
}

Default = worker_entrypoint()
