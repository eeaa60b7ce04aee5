"""From ``wrangler.toml`` to what workerd itself reads.

wrangler can start a Python Worker, but workerd cannot read a wrangler configuration whose main
module is Python. This module collects the Worker's modules as wrangler does and writes the Cap'n
Proto configuration: for tests and benches, which start workerd directly, and for a cluster.
"""

from __future__ import annotations

import ast
import hashlib
import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.errors import SetupError
from support.paths import PYTHON_MODULES, ROOT

DEVELOPMENT_FLAG = "python_workers_development"
"""Makes workerd take the runtime bundle from the cache directory instead of downloading it."""

MAIN_SERVICE = "main"
STATE_SERVICE = "object-state"
ASSETS_SERVICE = "assets-on-disk"
ROUTER_SERVICE = "assets-router"

_ROUTER = Path(__file__).with_name("assets_router.mjs")
_SKIPPED = {"__pycache__", ".venv", "node_modules"}


@dataclass(frozen=True, slots=True)
class WorkerModule:
    """One module of a Worker: its name there, its file here, and how workerd loads it."""

    name: str
    path: Path
    kind: str
    """``pythonModule``, ``esModule``, ``data`` or ``text``."""


@dataclass(slots=True)
class WorkerDefinition:
    """A Worker as workerd needs it: modules (the main one first), classes, bindings, flags."""

    name: str
    modules: list[WorkerModule]
    compatibility_date: str
    compatibility_flags: list[str]
    object_bindings: dict[str, str] = field(default_factory=dict[str, str])
    """Binding name to the exported Durable Object class."""

    variables: dict[str, Any] = field(default_factory=dict[str, Any])
    assets: Path | None = None

    def with_development_flag(self) -> WorkerDefinition:
        """The same Worker on the project's own runtime bundle, if it is a Python Worker."""
        flags = self.compatibility_flags
        if "python_workers" in flags and DEVELOPMENT_FLAG not in flags:
            self.compatibility_flags = [*self.compatibility_flags, DEVELOPMENT_FLAG]
        return self

    def digest(self) -> str:
        """A hash of all modules and flags: what a memory snapshot depends on."""
        hasher = hashlib.sha256(json.dumps(self.compatibility_flags).encode())
        hasher.update(self.compatibility_date.encode())
        hasher.update(json.dumps([self.object_bindings, self.variables], default=str).encode())
        for module in self.modules:
            hasher.update(f"\0{module.name}\0{module.kind}\0".encode())
            hasher.update(hashlib.sha256(module.path.read_bytes()).digest())
        return hasher.hexdigest()[:24]


def read_wrangler(path: Path = ROOT / "wrangler.toml") -> dict[str, Any]:
    """The parsed wrangler configuration.

    :raises SetupError: it cannot be read.
    """
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise SetupError(f"{path.name} cannot be read: {error}") from error


def _files(directory: Path) -> list[Path]:
    found: list[Path] = []
    for base, directories, names in os.walk(directory):
        directories[:] = sorted(name for name in directories if name not in _SKIPPED)
        found += [Path(base, name) for name in sorted(names)]
    return found


def source_modules(directory: Path, prefix: str = "") -> list[WorkerModule]:
    """All Python files under ``directory``, named relative to it."""
    return [
        WorkerModule(prefix + path.relative_to(directory).as_posix(), path, "pythonModule")
        for path in _files(directory)
        if path.suffix == ".py"
    ]


def vendored_modules(directory: Path = PYTHON_MODULES) -> list[WorkerModule]:
    """All files of vendored packages, as wrangler uploads them."""
    modules: list[WorkerModule] = []
    for path in _files(directory):
        relative = path.relative_to(directory)
        if path.suffix == ".pyc" or relative.as_posix() in {".synced", ".requirements"}:
            continue
        script = path.suffix in {".js", ".mjs"} and relative.parts[0] == "workers"
        kind = "esModule" if script else "data"
        modules.append(WorkerModule(f"python_modules/{relative.as_posix()}", path, kind))
    return modules


def exported_objects(main: Path) -> list[str]:
    """The Durable Object classes of a main module: those with the decorator or the base class."""
    found: list[str] = []
    for node in ast.parse(main.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            marks = [ast.unparse(item) for item in [*node.decorator_list, *node.bases]]
            names = {mark.rpartition(".")[2] for mark in marks}
            if names & {"durable_object", "DurableObject"}:
                found.append(node.name)
    return found


def define_worker(
    main: Path | None = None,
    *,
    wrangler: Path = ROOT / "wrangler.toml",
    extra_modules: Sequence[WorkerModule] = (),
    object_classes: Mapping[str, str] | None = None,
    variables: Mapping[str, Any] | None = None,
    assets: bool = True,
) -> WorkerDefinition:
    """The project's Worker, or another one with its packages.

    :param main: another main module than the configuration's; it is named as it is called here.
    :param extra_modules: modules beside those of the source directory and the vendored packages.
    :param object_classes: binding name to Durable Object class, instead of the configuration's
        (or, with another main module, of the classes which that module exports).
    :param variables: added to the configuration's.
    :param assets: whether static files are served in front of the Worker, when there are any.
    :raises SetupError: the configuration is not one of a Python Worker.
    """
    config = read_wrangler(wrangler)
    configured = config.get("main")
    if not isinstance(configured, str) or not configured.endswith(".py"):
        raise SetupError(f"{wrangler.name} names no Python main module")
    configured_main = wrangler.parent / configured
    source = configured_main.parent
    entry = main or configured_main
    main_module = WorkerModule(entry.name, entry, "pythonModule")
    modules = [main_module]
    seen = {main_module.name}
    for module in [*source_modules(source), *extra_modules, *vendored_modules()]:
        if module.name not in seen:
            seen.add(module.name)
            modules.append(module)
    if object_classes is None and main is not None:
        object_classes = {name: name for name in exported_objects(main)}
    bindings = config.get("durable_objects", {}).get("bindings", [])
    classes = {str(item["name"]): str(item["class_name"]) for item in bindings}
    static = config.get("assets", {}).get("directory")
    return WorkerDefinition(
        name=str(config.get("name", "worker")),
        modules=modules,
        compatibility_date=str(config["compatibility_date"]),
        compatibility_flags=[str(flag) for flag in config.get("compatibility_flags", [])],
        object_bindings=dict(object_classes) if object_classes is not None else classes,
        variables={**config.get("vars", {}), **(variables or {})},
        assets=(wrangler.parent / static) if assets and static else None,
    )


def _quote(text: str) -> str:
    """A Cap'n Proto text literal."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _embed(path: Path, directory: Path) -> str:
    return f"embed {_quote(os.path.relpath(path, directory))}"


def _bindings(worker: WorkerDefinition) -> list[str]:
    lines = [
        f"(name = {_quote(name)}, durableObjectNamespace = {_quote(class_name)})"
        for name, class_name in worker.object_bindings.items()
    ]
    for name, value in worker.variables.items():
        if isinstance(value, str):
            lines.append(f"(name = {_quote(name)}, text = {_quote(value)})")
        else:
            lines.append(f"(name = {_quote(name)}, json = {_quote(json.dumps(value))})")
    return lines


def _join(lines: Sequence[str], indent: str = "      ") -> str:
    return "".join(f"\n{indent}{line}," for line in lines)


def render_worker(worker: WorkerDefinition, directory: Path) -> str:
    """The Cap'n Proto ``Worker`` struct, for a configuration file that lies in ``directory``."""
    modules = [
        f"(name = {_quote(item.name)}, {item.kind} = {_embed(item.path, directory)})"
        for item in worker.modules
    ]
    namespaces = [
        f"(className = {_quote(name)}, uniqueKey = {_quote(f'{worker.name}-{name}')}, "
        "enableSql = true)"
        for name in dict.fromkeys(worker.object_bindings.values())
    ]
    flags = ", ".join(_quote(flag) for flag in worker.compatibility_flags)
    return f"""(
    modules = [{_join(modules)}
    ],
    compatibilityDate = {_quote(worker.compatibility_date)},
    compatibilityFlags = [{flags}],
    bindings = [{_join(_bindings(worker))}
    ],
    durableObjectNamespaces = [{_join(namespaces)}
    ],
    durableObjectStorage = (localDisk = {_quote(STATE_SERVICE)}),
  )"""


def _assets_services(assets: Path, directory: Path) -> list[str]:
    router = (
        f"(modules = [(name = {_quote(_ROUTER.name)}, esModule = {_embed(_ROUTER, directory)})], "
        'compatibilityDate = "2026-10-01", bindings = ['
        f'(name = "FILES", service = {_quote(ASSETS_SERVICE)}), '
        f'(name = "WORKER", service = {_quote(MAIN_SERVICE)})])'
    )
    return [
        f"(name = {_quote(ASSETS_SERVICE)}, disk = (path = {_quote(str(assets))}))",
        f"(name = {_quote(ROUTER_SERVICE)}, worker = {router})",
    ]


def render_config(
    worker: WorkerDefinition,
    directory: Path,
    state: Path,
    *,
    address: str = "127.0.0.1:0",
    allow_private_network: bool = True,
    trusted_certificates: Sequence[str] = (),
    extra: str = "",
) -> str:
    """A whole workerd configuration with the constant ``config``.

    :param directory: where the file will lie; embedded paths are relative to it.
    :param state: the directory of the objects' databases.
    :param address: where the socket ``http`` listens.
    :param allow_private_network: whether the Worker may reach loopback and private addresses.
    :param trusted_certificates: PEM certificates that outgoing https trusts beside the usual ones.
    :param extra: further fields of the ``Config`` struct, such as ``cluster = (...),``.
    """
    networks = '["public", "private", "local"]' if allow_private_network else '["public"]'
    front = MAIN_SERVICE
    trusted = ", ".join(_quote(certificate) for certificate in trusted_certificates)
    services = [
        f"(name = {_quote(MAIN_SERVICE)}, worker = .worker)",
        f"(name = {_quote(STATE_SERVICE)}, disk = (path = {_quote(str(state))}, writable = true))",
        f'(name = "internet", network = (allow = {networks}, '
        f"tlsOptions = (trustBrowserCas = true, trustedCertificates = [{trusted}])))",
    ]
    if worker.assets is not None:
        services += _assets_services(worker.assets, directory)
        front = ROUTER_SERVICE
    socket = f'(name = "http", address = {_quote(address)}, http = (), service = {_quote(front)})'
    return f"""using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [{_join(services, "    ")}
  ],
  sockets = [{_join([socket], "    ")}
  ],
  {extra}
);

const worker :Workerd.Worker = {render_worker(worker, directory)};
"""
