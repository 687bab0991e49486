"""The import rule: `shared` knows neither program; the programs never import each other;
the deck's core never imports a face."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FORBIDDEN = {
    "shared": {"gateway", "deck"},
    "gateway": {"deck"},
    "deck": {"gateway"},
}


def imported_modules(source: str, package: str) -> set[str]:
    """Every absolute module name a file imports, however deep in the file it does so."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                base = package.split(".")[: len(package.split(".")) - node.level + 1]
                names.add(".".join([*base, node.module or ""]).rstrip("."))
            else:
                names.add(node.module or "")
        elif (
            isinstance(node, ast.Call)
            and getattr(node.func, "attr", getattr(node.func, "id", "")) == "import_module"
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            names.add(str(node.args[0].value))
    return names


def files(package: str) -> list[Path]:
    return sorted((ROOT / package).rglob("*.py"))


@pytest.mark.parametrize("package", sorted(FORBIDDEN))
def test_no_package_imports_what_it_must_not(package: str) -> None:
    assert files(package), f"{package} has no modules"
    for path in files(package):
        dotted = ".".join(path.relative_to(ROOT).parent.parts)
        tops = {name.split(".")[0] for name in imported_modules(path.read_text(), dotted)}
        assert not tops & FORBIDDEN[package], f"{path.relative_to(ROOT)} imports {tops}"


def test_the_check_sees_every_way_to_import() -> None:
    source = (
        "import gateway.app\n"
        "def f():\n    from deck import cli\n"
        "    import importlib; importlib.import_module('shared.x')\n"
    )
    tops = {name.split(".")[0] for name in imported_modules(source, "tests")}
    assert {"gateway", "deck", "shared"} <= tops


def test_the_deck_core_never_imports_a_face() -> None:
    faces = {"deck.tui", "deck.web", "deck.attach", "deck.cli"}
    for path in files("deck"):
        parts = path.relative_to(ROOT / "deck").parts
        if parts[0] in {"cli", "tui", "web", "attach", "demo"}:
            continue
        dotted = ".".join(path.relative_to(ROOT).parent.parts)
        for name in imported_modules(path.read_text(), dotted):
            assert not any(name == face or name.startswith(face + ".") for face in faces), (
                f"{path.relative_to(ROOT)} imports {name}"
            )
