"""workerd's Python runtime, built from the npm package ``pyodide``.

A Python Worker needs a runtime bundle that workerd would download from Cloudflare. With the
compatibility flag ``python_workers_development`` it takes ``pyodide_dev.capnp.bin`` from a cache
directory instead, whatever it holds, as long as its Pyodide version is the one that the binary
expects. This module makes that file: the Pyodide glue adapted to what workerd forbids (compiling
WebAssembly, ``eval``, free randomness), the WebAssembly module and the standard library.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass
from pathlib import Path

from support.capnp import StructValue, write_struct_list
from support.errors import SetupError
from support.paths import BUNDLE_CACHE, NODE_MODULES

BUNDLE_NAME = "pyodide_dev.capnp.bin"

SUPPORTED = {"1.20261117.1": "314.0.6"}
"""Which Pyodide version each workerd version embeds its Python interface for."""

_KIND_SOURCE, _KIND_WASM, _KIND_DATA = 0, 1, 2
_TYPE_INTERNAL = 2

_PRELUDE = (
    "import {newWasmModule,wasmInstantiate,monotonicDateNow,getRandomValues,"
    "patchedLoadLibData,location,addEventListener} "
    'from "pyodide-internal:builtin_wrappers";\n'
)


@dataclass(frozen=True, slots=True)
class _Change:
    """One replacement in the glue, and how often its text must be found (None: at least once)."""

    what: str
    old: str
    new: str
    times: int | None = 1


_NO_EVAL = '(()=>{throw new Error("eval is not available in a Worker")})()'

_CHANGES = (
    _Change("Wasm compilation", "new WebAssembly.Module(", "newWasmModule(", None),
    _Change("Wasm instantiation", "WebAssembly.instantiate(", "wasmInstantiate(", None),
    _Change("the clock", "Date.now()", "monotonicDateNow()", None),
    _Change("randomness", "crypto.getRandomValues(", "getRandomValues(Module,"),
    _Change(
        "library memory",
        "getMemory(metadata.memorySize+memAlign)",
        "Module.getMemoryPatched(Module,libName,metadata.memorySize+memAlign)",
    ),
    _Change(
        "library loading",
        "function loadLibData(){",
        "function loadLibData(){const found=patchedLoadLibData(Module,libName,flags.rpath);"
        "return flags.loadAsync?Promise.resolve(found):found;",
    ),
    _Change("eval of assembled code", "=eval(func)", f"={_NO_EVAL}", 2),
    _Change("eval of scripts", "eval(UTF8ToString(ptr))", _NO_EVAL, None),
    _Change("eval of workers' files", "eval(data)", _NO_EVAL),
    _Change(
        "the exported name",
        "export default _createPyodideModule;",
        "export{_createPyodideModule};export default _createPyodideModule;",
    ),
)
"""What workerd's built-in module ``pyodide-internal:builtin_wrappers`` stands in for. It checks
the name of the calling function, so the glue must not be minified any further."""


def adapt_glue(glue: str) -> str:
    """The Emscripten glue ``pyodide.asm.mjs`` as workerd can run it.

    :raises SetupError: a place to change is not there as often as expected, so this is another
        Pyodide than the one these changes were made for.
    """
    for change in _CHANGES:
        found = glue.count(change.old)
        if found == 0 or (change.times is not None and found != change.times):
            wanted = "at least once" if change.times is None else f"{change.times} times"
            raise SetupError(
                f"pyodide.asm.mjs does not look as expected: {change.what} ({change.old!r}) was "
                f"found {found} times instead of {wanted}. This npm package 'pyodide' is not a "
                "version that the runtime bundle can be built from."
            )
        glue = glue.replace(change.old, change.new)
    return _PRELUDE + glue


def _module(name: str, kind: int, content: bytes) -> StructValue:
    """One module of the bundle.

    The data word holds the module's type (first 16 bits) and the union's choice (next 16 bits);
    the pointers are name, content, TypeScript declaration, compile cache.
    """
    data = struct.pack("<HHI", _TYPE_INTERNAL, kind, 0)
    return StructValue(data, (name.encode() + b"\0", content, None, None))


def build_bundle(pyodide: Path) -> bytes:
    """The bundle's bytes from an unpacked npm package ``pyodide``."""
    glue = adapt_glue((pyodide / "pyodide.asm.mjs").read_text(encoding="utf-8"))
    wasm = (pyodide / "pyodide.asm.wasm").read_bytes()
    library = (pyodide / "python_stdlib.zip").read_bytes()
    prefix = "pyodideRuntime-internal:"
    return write_struct_list(
        [
            _module(f"{prefix}pyodide.asm", _KIND_SOURCE, glue.encode()),
            _module(f"{prefix}pyodide.asm.wasm", _KIND_WASM, wasm),
            _module(f"{prefix}python_stdlib.zip", _KIND_DATA, library),
        ]
    )


def installed_version(package: str, node_modules: Path = NODE_MODULES) -> str:
    """The version of an installed npm package.

    :raises SetupError: it is not installed.
    """
    manifest = node_modules / package / "package.json"
    if not manifest.is_file():
        raise SetupError(f"the npm package '{package}' is not installed: run npm ci")
    return str(json.loads(manifest.read_text(encoding="utf-8"))["version"])


def check_versions(workerd: str, pyodide: str) -> None:
    """Make sure that this workerd can run this Pyodide.

    :raises SetupError: it cannot, or the pair is unknown.
    """
    expected = SUPPORTED.get(workerd)
    if expected is None:
        known = ", ".join(sorted(SUPPORTED))
        raise SetupError(
            f"workerd {workerd} is installed, but the offline runtime is known to fit only "
            f"{known}. Install that version (npm ci), or add the new pair to SUPPORTED in "
            "scripts/support/runtime_bundle.py after trying it."
        )
    if pyodide != expected:
        raise SetupError(
            f"workerd {workerd} needs the npm package pyodide {expected}, but {pyodide} is "
            f"installed: run npm install --save-exact --save-dev pyodide@{expected}"
        )


def ensure_bundle() -> Path:
    """The directory to give workerd as ``--pyodide-bundle-disk-cache-dir``, built when missing.

    The file is rebuilt whenever workerd's or Pyodide's version or this module changes.

    :raises SetupError: versions do not fit or Pyodide is not as expected.
    """
    workerd, pyodide = installed_version("workerd"), installed_version("pyodide")
    check_versions(workerd, pyodide)
    builder = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()[:16]
    key = f"workerd {workerd}, pyodide {pyodide}, builder {builder}\n"
    bundle, stamp = BUNDLE_CACHE / BUNDLE_NAME, BUNDLE_CACHE / "key"
    if bundle.is_file() and stamp.is_file() and stamp.read_text() == key:
        return BUNDLE_CACHE
    BUNDLE_CACHE.mkdir(parents=True, exist_ok=True)
    stamp.unlink(missing_ok=True)
    partial = bundle.with_suffix(".partial")
    partial.write_bytes(build_bundle(NODE_MODULES / "pyodide"))
    partial.replace(bundle)
    stamp.write_text(key)
    return BUNDLE_CACHE
