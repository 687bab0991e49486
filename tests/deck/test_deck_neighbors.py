"""A deck and a gateway on one machine record each other's heads."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

from deck_harness import DeckRig, agent_role
from gateway_harness import Gateway

from shared.anchors.neighbors import anchor_records, announced, neighbors_dir
from shared.ledger import LedgerError, open_note, parse_vkey, verify_path
from shared.ledger.directory import read_head


def neighbors_in(ledger: Path) -> list[dict[str, Any]]:
    try:
        return [record["ext"] for record in anchor_records(ledger)]
    except LedgerError:
        return []


def test_a_deck_and_a_gateway_record_each_other(rig: DeckRig, tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "home", "http://127.0.0.1:1")
    gateway._environment["XDG_STATE_HOME"] = rig.env["XDG_STATE_HOME"]
    gateway.start()
    rig.team(agent_role("orchestrator"), agent_role("coder"))
    rig.serve()
    deck, own = rig.state_dir / "ledger", tmp_path / "home" / "ledger"
    rig.wait(lambda: neighbors_in(deck) and neighbors_in(own))
    assert gateway.stop() == 0
    for here, there in ((deck, own), (own, deck)):
        ext = neighbors_in(here)[0]
        assert ext["kind"] == "neighbor"
        assert "alarm" not in ext
        text = open_note(ext["note"], [parse_vkey(ext["vkey"])])
        assert text.startswith(f"{ext['origin']}\n{ext['size']}\n")
        assert ext["vkey"] in (there / "log.json").read_text()


def test_the_last_head_of_whichever_stops_first_is_recorded_by_the_other(
    rig: DeckRig, tmp_path: Path
) -> None:
    gateway = Gateway(tmp_path / "home", "http://127.0.0.1:1")
    gateway._environment["XDG_STATE_HOME"] = rig.env["XDG_STATE_HOME"]
    gateway.start()
    rig.team(agent_role("coder"))
    rig.serve()
    deck, own = rig.state_dir / "ledger", tmp_path / "home" / "ledger"
    rig.wait(lambda: neighbors_in(deck) and neighbors_in(own))
    assert gateway.stop() == 0
    closed_with = read_head(own)
    rig.wait(lambda: neighbors_in(deck)[-1]["note"] == closed_with)
    pid = rig.pid()
    os.kill(pid, signal.SIGTERM)
    rig.wait(lambda: not Path(f"/proc/{pid}").exists())
    place = neighbors_dir(rig.env)
    notes = {entry.directory: (entry.pid, entry.note) for entry in announced(place)}
    assert notes == {str(own): (0, closed_with), str(deck): (0, read_head(deck))}
    gateway.start()
    rig.wait(lambda: neighbors_in(own)[-1]["note"] == read_head(deck))
    assert gateway.stop() == 0
    assert verify_path(deck).exit_code == verify_path(own).exit_code == 0
