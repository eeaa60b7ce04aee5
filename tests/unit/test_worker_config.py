"""From ``wrangler.toml`` to workerd's own configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.errors import SetupError
from support.worker_config import (
    DEVELOPMENT_FLAG,
    define_worker,
    exported_objects,
    render_config,
    vendored_modules,
)

WRANGLER = """
name = "sample"
main = "src/main.py"
compatibility_date = "2026-11-01"
compatibility_flags = ["python_workers"]
vars = { GREETING = 'say "hi"\\n', LIMITS = { a = 1 } }
[[durable_objects.bindings]]
name = "Room"
class_name = "Room"
[assets]
directory = "pages"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a package, a cache directory and a page beside its main module."""
    (tmp_path / "wrangler.toml").write_text(WRANGLER)
    source = tmp_path / "src"
    for name in ("main.py", "package/__init__.py", "package/__pycache__/old.py", "web/index.html"):
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("pass\n")
    return tmp_path


def test_modules_are_named_as_wrangler_names_them(project: Path) -> None:
    worker = define_worker(wrangler=project / "wrangler.toml")
    own = [module for module in worker.modules if not module.name.startswith("python_modules/")]
    assert [module.name for module in own] == ["main.py", "package/__init__.py"]
    assert {module.kind for module in own} == {"pythonModule"}
    assert worker.object_bindings == {"Room": "Room"}
    assert worker.assets == project / "pages"


def test_a_project_without_a_python_main_is_refused(project: Path) -> None:
    config = project / "wrangler.toml"
    config.write_text(WRANGLER.replace("src/main.py", "src/main.ts"))
    with pytest.raises(SetupError, match="no Python main module"):
        define_worker(wrangler=config)
    config.write_text("name = ")
    with pytest.raises(SetupError, match="cannot be read"):
        define_worker(wrangler=config)


def test_the_configuration_holds_bindings_objects_and_files(project: Path) -> None:
    worker = define_worker(wrangler=project / "wrangler.toml", variables={"EXTRA": "x"})
    text = render_config(worker, project, project / "state", address="127.0.0.1:1234")
    assert '(name = "GREETING", text = "say \\"hi\\"\\\\n")' in text
    assert '(name = "LIMITS", json = "{\\"a\\": 1}")' in text
    assert '(name = "EXTRA", text = "x")' in text
    assert 'className = "Room", uniqueKey = "sample-Room", enableSql = true' in text
    assert '(name = "main.py", pythonModule = embed "src/main.py")' in text
    assert 'address = "127.0.0.1:1234"' in text
    assert 'service = "assets-router"' in text
    assert DEVELOPMENT_FLAG not in text
    assert f'"{DEVELOPMENT_FLAG}"' in render_config(
        worker.with_development_flag(), project, project / "state"
    )


def test_the_digest_follows_contents_names_and_flags(project: Path) -> None:
    def digest() -> str:
        return define_worker(wrangler=project / "wrangler.toml").digest()

    first = digest()
    assert digest() == first
    (project / "src" / "package" / "__init__.py").write_text("pass  # changed\n")
    second = digest()
    assert second != first
    (project / "src" / "package" / "__init__.py").rename(project / "src" / "package" / "other.py")
    assert digest() not in {first, second}
    worker = define_worker(wrangler=project / "wrangler.toml")
    plain = worker.digest()
    assert worker.with_development_flag().digest() != plain


def test_exported_objects_are_read_from_the_source(tmp_path: Path) -> None:
    main = tmp_path / "main.py"
    main.write_text(
        "@durable_object\nclass One(Agent):\n    pass\n\n"
        "class Two(workers.DurableObject):\n    pass\n\nclass Three(Agent):\n    pass\n"
    )
    assert exported_objects(main) == ["One", "Two"]


def test_vendored_modules_leave_out_caches_and_stamps(tmp_path: Path) -> None:
    for name in ("a/__init__.py", "a/x.pyc", "a/__pycache__/y.py", "workers/w.js", ".requirements"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    found = {module.name: module.kind for module in vendored_modules(tmp_path)}
    assert found == {
        "python_modules/a/__init__.py": "data",
        "python_modules/workers/w.js": "esModule",
    }
