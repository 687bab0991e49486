"""Roles that the start role proposes: a block of the team file, shown, approved, appended.

Owns the verb `roster-add` (contracts/deck.md section 1.10). Invariants: only roles are added, and
plain ones: no start, no looser rules than the team's; what a person approves is, byte for byte,
what is appended; every byte that was in the file stays, and the result is read before it replaces
the file; a file that was changed since the team took it is not taken along, so that nobody gets
more by editing it first. `deck.session` dispatches here; a gate of the kind roster leads back.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from deck.board import Gate
from deck.callers import Caller
from deck.config import Config, ConfigError, Role
from deck.desk import Desk
from deck.entries import Decision, Entry, GateKind, Op
from deck.gatekeeper import Changed, Durable, Gatekeeper, Rules
from deck.plain_files import read_plain
from deck.protocol import Command, Verb, error, ok, one_line
from deck.reloading import CannotReload, Reloading
from deck.roster import NotOnPath, find_program
from deck.team_file import replace_file
from deck.team_reader import MAX_BYTES, parse_config
from shared.paths import is_path_safe_role

#: Names that records and rules use for others.
_TAKEN_NAMES: Final = frozenset({"operator", "unknown", "choragos"})
#: A person has to read it before approving.
MAX_BLOCK_CHARS: Final = 20_000


class Refused(Exception):
    """A proposal that cannot be taken; the text is a clause that says why."""


@dataclass(slots=True)
class Proposals:
    """The proposed roles of one session."""

    desk: Desk
    gatekeeper: Gatekeeper
    reloading: Reloading

    async def propose(self, command: Command, caller: Caller) -> bytes:
        """Take the proposal of a new role: to a person, or straight into the team."""
        desk, name = self.desk, command.role_name
        try:
            block = await self._block(command, caller)
            if desk.config.roster.approve:
                return await self._hold(name, command.role_command, block)
            await self._apply(name, block, caller.name)
        except (Refused, CannotReload) as why:
            return await self._refuse(name, str(why).rstrip("."), caller.name)
        return ok(role=name, state="applied")

    async def _block(self, command: Command, caller: Caller) -> str:
        """Return what would be appended to the team file. Raises Refused."""
        desk, config = self.desk, self.desk.config
        if config.path is None:
            raise Refused("the built-in team has no file that a role could be added to")
        if not config.roster.propose:
            raise Refused("the team file says propose = false in [roster]")
        if why := await self._closed():
            raise Refused(why)
        self._check_name(command.role_name)
        if not command.role_command:
            raise Refused("a role needs a command")
        try:
            find_program(Role(command.role_name, command.role_command), desk.environ)
        except NotOnPath as missing:
            raise Refused(str(missing)) from None
        block = block_of(command, caller.name)
        if len(block) > MAX_BLOCK_CHARS:
            raise Refused(f"it is longer than {MAX_BLOCK_CHARS} characters; nobody could review it")
        self._parsed(config, block)
        return block

    async def _closed(self) -> str:
        gateway = self.desk.gateway
        if not gateway.fail_closed:
            return ""
        readiness = await gateway.probe()
        return "" if readiness.ready else f"the gateway is not ready: {readiness.reason}"

    def _check_name(self, name: str) -> None:
        desk = self.desk
        if not is_path_safe_role(name) or name in _TAKEN_NAMES:
            raise Refused(
                f"{name[:64]!r} cannot be the name of a role: it has 1 to 64 letters, digits, "
                "'.', '_' and '-', and is none that records use for others"
            )
        if desk.config.role(name) is not None:
            raise Refused(f"there is a role named {name} already")
        for gate in desk.state.gates.values():
            is_open = gate.kind is GateKind.ROSTER and gate.decision is Decision.OPEN
            if is_open and gate.role == name:
                raise Refused(f"{name} is proposed already and waits as {gate.id}")

    def _parsed(self, config: Config, block: str) -> tuple[Role, bytes]:
        """Return the role as the team file would hold it, and that file. Raises Refused."""
        assert config.path is not None, "only a team with a file gets this far"
        text = with_block(config.source, block)
        try:
            found = parse_config(text, config.path)
        except ConfigError as wrong:
            raise Refused(f"the team file could not be read with it: {wrong}") from None
        before = parse_config(config.source, config.path)
        if found.roles[:-1] != before.roles or set(found.warnings) - set(before.warnings):
            raise Refused("the team file is written in a way that a role cannot be appended to")
        return found.roles[-1], text

    # -- what is approved -----------------------------------------------------------------------

    async def _hold(self, name: str, program: str, block: str) -> bytes:
        desk = self.desk
        ref = await asyncio.to_thread(desk.texts.put, block)
        why = f"a new role {name}, which runs {one_line(program, 100)}"
        # Somebody else may have proposed the same name meanwhile.
        self._check_name(name)
        gate_id, durable = self.gatekeeper.open(GateKind.ROSTER, ref, role=name, shown=ref, why=why)
        await durable
        desk.events.write("INFO", "roster add gated", role=name, gate=gate_id)
        return ok(
            role=name,
            state="gated",
            gate=gate_id,
            reason=f"waits for an approval: choragos approve {gate_id}",
        )

    def rules(self) -> Rules:
        """Return what a gate before a new role is about."""
        return Rules(self._obstacle, self._present, self._follow)

    def _obstacle(self, gate: Gate) -> str:
        """A file that somebody is changing is first reloaded, or the change taken back."""
        config = self.desk.config
        if config.path is None or _bytes_of(config.path) != config.source:
            return "the team file was changed since it was loaded; run `choragos reload` first"
        return ""

    async def _present(self, gate: Gate) -> str:
        block = self.desk.texts.get(gate.shown)
        if block is None:
            raise Changed("its text was changed or removed since the gate opened")
        if self.desk.config.role(gate.role) is not None:
            raise Changed(f"there is a role named {gate.role} by now")
        try:
            self._parsed(self.desk.config, block)
        except Refused as why:
            raise Changed(str(why)) from None
        return self.desk.texts.commit(block.encode("utf-8", "replace"))

    async def _follow(self, gate: Gate, why: str, durable: Durable) -> None:
        await durable
        desk = self.desk
        if gate.decision is not Decision.APPROVED:
            desk.events.write(
                "INFO", "roster add rejected", role=gate.role, gate=gate.id, reason=why or None
            )
            desk.notify(f"the new role {gate.role} was {gate.decision}. {why}".rstrip())
            return
        # The ack of the decision need not wait until the role runs.
        desk.job(self._add(gate))

    async def _add(self, gate: Gate) -> None:
        block, sender = self.desk.texts.get(gate.shown) or "", gate.approver
        try:
            await self._apply(gate.role, block, sender)
        except (Refused, CannotReload) as why:
            await self._refuse(gate.role, str(why).rstrip("."), sender)

    # -- what follows ---------------------------------------------------------------------------

    async def _apply(self, name: str, block: str, sender: str) -> None:
        """Append a block to the team file and take the role into the team. Raises Refused,
        CannotReload or JournalFailed."""
        desk, path = self.desk, self.desk.config.path
        source = desk.config.source
        role, text = self._parsed(desk.config, block)
        assert path is not None, "only a team with a file gets this far"

        def append() -> None:
            if _bytes_of(path) != source:
                raise CannotReload(
                    "the team file was changed since it was loaded; `choragos reload` takes the "
                    "change up, then propose the role again"
                )
            try:
                replace_file(path, text)
            except OSError as failure:
                raise CannotReload(f"{path} cannot be written: {failure.strerror}") from failure

        problem = await self.reloading.join(role, text, sender, append)
        desk.events.write("INFO", "roster add applied", role=name, **{"from": sender})
        if problem:
            desk.notify(f"{name} is in the team now, but {problem}")

    async def _refuse(self, name: str, why: str, sender: str) -> bytes:
        desk, said = self.desk, one_line(why, 1000)
        desk.events.write(
            "WARN", "roster add refused", role=one_line(name, 64), reason=said, **{"from": sender}
        )
        await desk.record(
            Entry(
                Op.DENIED,
                desk.now(),
                role=name,
                sender=sender,
                state=Verb.ROSTER_ADD,
                reason=said,
            )
        )
        desk.notify(f"roster add of {one_line(name, 64)} refused: {said}.")
        return error(f"{one_line(name, 64) or 'The role'} was refused: {said}.")


# -- the team file ------------------------------------------------------------------------------


def block_of(command: Command, sender: str) -> str:
    """Return the block of the team file that a proposal amounts to: a plain role and no more."""
    lines = [
        f"# Proposed by {one_line(sender, 64)} while the team ran.",
        "[[roles]]",
        f"name = {toml_string(command.role_name)}",
        f"command = {toml_string(command.role_command)}",
    ]
    if command.role_args:
        lines.append(f"args = [{', '.join(map(toml_string, command.role_args))}]")
    if command.role_model:
        lines.append(f"model = {toml_string(command.role_model)}")
    if command.role_prompt:
        lines.append(f"prompt_template = {toml_string(command.role_prompt)}")
    return "\n".join(lines) + "\n"


def toml_string(text: str) -> str:
    """Return a string as TOML has it, on one line. What does not print is escaped, so that a
    person sees all there is."""
    return '"' + "".join(map(_toml_char, text)) + '"'


def _toml_char(char: str) -> str:
    if char in ('"', "\\"):
        return "\\" + char
    if char == "\n":
        return "\\n"
    if char.isprintable():
        return char
    code = ord(char)
    return f"\\u{code:04X}" if code < 0x10000 else f"\\U{code:08X}"


def with_block(source: bytes, block: str) -> bytes:
    """Return a team file with a block behind all that is there."""
    gap = b"" if not source else b"\n" if source.endswith(b"\n") else b"\n\n"
    return source + gap + block.encode("utf-8", "replace")


def _bytes_of(path: Path) -> bytes:
    try:
        return read_plain(path, MAX_BYTES)
    except OSError:
        return b""
