"""`choragos init`: write a team file to start from.

Owns the verb's options and the choice of template; the templates are the TOML files in
`deck/templates`, those for `--auto` in its folder `auto`. Invariant: an existing team file is
never replaced without `--force`, not even by two calls at once. Called by the command line.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Annotated, Final

import typer

from deck.cli.failure import fail, here
from deck.detect import Language, detect
from deck.team_reader import CONFIG_NAME

TEMPLATES: Final = (
    "starter",
    "claude-team",
    "mixed-team",
    "review",
    "defects-flow",
    "worktree-flow",
    "regulated",
)


def register(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("init")(init)


def init(
    template: Annotated[
        str | None,
        typer.Option(
            "--template",
            help=f"One of: {', '.join(TEMPLATES)}.",
            autocompletion=lambda: list(TEMPLATES),
        ),
    ] = None,
    auto: Annotated[
        bool, typer.Option("--auto", help="Choose by what the project is written in.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing team file.")] = False,
) -> None:
    """Write a .choragos.toml to start from."""
    if auto and template is not None:
        fail("--auto and --template exclude each other; use one of them")
    if template is not None and template not in TEMPLATES:
        fail(f"there is no template {template!r}; choose one of {', '.join(TEMPLATES)}")
    name, text = _detected(here()) if auto else _named(template or "starter")
    path = Path(CONFIG_NAME)
    try:
        if force:
            path.unlink(missing_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        fail(f"{CONFIG_NAME} exists already; edit it, or replace it with --force")
    except OSError as failure:
        fail(f"{CONFIG_NAME} cannot be written: {failure.strerror}")
    typer.echo(f"wrote {CONFIG_NAME} (template: {name})")


def _named(name: str) -> tuple[str, str]:
    return name, _template(f"{name}.toml")


def _detected(directory: Path) -> tuple[str, str]:
    """Return the name and text of the team for the project's main language, or the starter."""
    found = detect(directory)
    if not found:
        return _named("starter")
    return found[0].key, _header(found) + _template(f"auto/{found[0].key}.toml")


def _header(found: tuple[Language, ...]) -> str:
    lines = [f"# A team for a {found[0].name} project, chosen by `choragos init --auto`."]
    if len(found) > 1:
        others = ", ".join(language.name for language in found[1:])
        lines.append(f"# Also found here: {others}; adapt the prompts if they matter as much.")
    lines.append("# `choragos doctor` checks this file, `choragos serve` runs it.")
    return "\n".join(lines) + "\n\n"


def _template(name: str) -> str:
    return (resources.files("deck") / "templates" / name).read_text(encoding="utf-8")
