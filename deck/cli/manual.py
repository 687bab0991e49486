"""`choragos completion` and the hidden `choragos gen-man`: for shells and for man.

Owns the manual page's shape. Rule: what a verb does and takes is written once, in the verb; the
page and the completions are made from the very commands that run. Called by packagers and by
whoever sets up a shell.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Annotated, Any, Final

import typer

from deck.cli.failure import fail
from shared import __version__

PROGRAM: Final = "choragos"
_COMPLETE: Final = "_CHORAGOS_COMPLETE"

_FILES: Final = (
    (".choragos.toml", "The team file of a directory; choragos init writes one."),
    (".choragos/", "Tasks, briefs, logs and the ledger of the directory's session."),
    ("$XDG_RUNTIME_DIR/choragos-UID/", "Sockets of running sessions; else in the temp directory."),
    ("$XDG_STATE_HOME/choragos/", "Keys of the ledgers, homes of walled roles."),
)
_VARIABLES: Final = (
    ("CHORAGOS_SOCK", "Where the control socket is, if not in the runtime directory."),
    ("CHORAGOS_DEBUG", "Set, a fault of the program shows its traceback."),
    ("SPHRAGIS_HOME", "The home of the gateway, ~/.sphragis unless set."),
)


class Shell(StrEnum):
    """The shells that completion is for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"
    POWERSHELL = "powershell"


def register(app: typer.Typer) -> None:
    """Add the verbs to the command line."""

    @app.command("completion")
    def completion(
        shell: Annotated[Shell, typer.Argument(help="One of: bash, zsh, fish, powershell.")],
    ) -> None:
        """Print the completion script of a shell, to be sourced from its start file."""
        os.environ[_COMPLETE] = f"source_{shell}"
        typer.main.get_command(app).main([], prog_name=PROGRAM, complete_var=_COMPLETE)

    @app.command("gen-man", hidden=True)
    def gen_man(
        directory: Annotated[
            str | None, typer.Argument(help="Where to write choragos.1; printed if not given.")
        ] = None,
    ) -> None:
        """Write the manual page."""
        page = manual(typer.main.get_command(app))
        if directory is None:
            sys.stdout.write(page)
            return
        path = os.path.join(directory, f"{PROGRAM}.1")
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(page)
        except OSError as failure:
            fail(f"{path} cannot be written: {failure.strerror}")
        typer.echo(f"wrote {path}")


def manual(command: Any) -> str:
    """Return the manual page of a command and its verbs, as roff for man(7)."""
    lines = [
        f'.TH {PROGRAM.upper()} 1 "" "{PROGRAM} {__version__}" "User Commands"',
        ".SH NAME",
        f"{PROGRAM} \\- {_text(_sentence(command.help)).rstrip('.')}",
        ".SH SYNOPSIS",
        f".B {PROGRAM}",
        r"[\fIOPTIONS\fR] \fICOMMAND\fR [\fIARGUMENTS\fR]",
        ".SH DESCRIPTION",
        *_paragraphs(command.help),
        "Each directory has one session. Commands act on the session of the working directory.",
        ".SH OPTIONS",
        *_options(command.params),
        *_table((("-h, --help", "Print what a command does and takes."),)),
        ".SH COMMANDS",
    ]
    for name, verb in _verbs(command, ()):
        lines += [f".SS {_text(' '.join(name))}", *_verb(name, verb)]
    lines += [".SH FILES", *_table(_FILES), ".SH ENVIRONMENT", *_table(_VARIABLES)]
    lines += [
        ".SH EXIT STATUS",
        "0 on success. 1 on any failure, with one line on standard error that begins with",
        r"\(lqerror:\(rq and says what to do.",
        ".SH SEE ALSO",
        ".BR sphragis (1),",
        ".BR git (1),",
        ".BR bwrap (1)",
    ]
    return "\n".join(lines) + "\n"


def _verbs(command: Any, lead: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, verb in command.commands.items():
        if verb.hidden:
            continue
        below = getattr(verb, "commands", None)
        if not below or getattr(verb, "invoke_without_command", False):
            yield (*lead, name), verb
        if below:
            yield from _verbs(verb, (*lead, name))


def _verb(name: Sequence[str], verb: Any) -> list[str]:
    words = [rf"\fB{_text(' '.join((PROGRAM, *name)))}\fR"]
    if any(_is_option(param) for param in verb.params):
        words.append(r"[\fIOPTIONS\fR]")
    for param in verb.params:
        if not _is_option(param):
            shown = rf"\fI{_text(_placeholder(param))}\fR"
            words.append(shown if param.required else f"[{shown}]")
    return [*_paragraphs(verb.help), ".PP", " ".join(words), *_options(verb.params)]


def _options(params: Sequence[Any]) -> list[str]:
    lines = []
    for param in params:
        if getattr(param, "hidden", False):
            continue
        if _is_option(param):
            names = ", ".join(
                rf"\fB{_text(name)}\fR" for name in (*param.opts, *param.secondary_opts)
            )
            shown = _placeholder(param)
            # A value that is optional is written right behind its option.
            gap = "" if shown.startswith("[") else " "
            value = "" if param.is_flag else rf"{gap}\fI{_text(shown)}\fR"
            lines += [".TP", f"{names}{value}"]
        else:
            lines += [".TP", rf"\fI{_text(_placeholder(param))}\fR"]
        lines.append(_line(getattr(param, "help", None) or "No description."))
    return lines


def _is_option(param: Any) -> bool:
    return bool(param.param_type_name == "option")


def _placeholder(param: Any) -> str:
    if param.metavar:
        return str(param.metavar)
    return str(max(param.opts, key=len)).lstrip("-").replace("-", "_").upper()


def _paragraphs(text: str | None) -> list[str]:
    lines: list[str] = []
    for index, part in enumerate((text or "").split("\n\n")):
        lines += [*([".PP"] if index else []), _line(part)]
    return lines


def _table(rows: Sequence[tuple[str, str]]) -> list[str]:
    return [line for name, text in rows for line in (".TP", rf"\fB{_text(name)}\fR", _line(text))]


def _sentence(text: str | None) -> str:
    return " ".join((text or "").split("\n\n", 1)[0].split())


def _line(text: str) -> str:
    """Return running text on one line that roff takes for text, whatever it begins with."""
    line = _text(" ".join(text.split()))
    return rf"\&{line}" if line[:1] in (".", "'") else line


def _text(text: str) -> str:
    """Return text with roff's own signs made harmless; a hyphen stays one that can be copied."""
    return text.replace("\\", r"\e").replace("-", r"\-").replace("\t", " ")
