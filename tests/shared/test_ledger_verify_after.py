"""The verifier on logs that lost something on purpose or by accident: pruned ones whose key was
changed, accepted losses; and evidence that is none."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from shared.anchors.cosignature import Cosigner
from shared.anchors.neighbors import follow_rotations
from shared.evidence.prune import prune
from shared.evidence.retention import DAY_US
from shared.evidence.stores import stores_in
from shared.ledger import Ledger, Verdict, load_commitment_key, verify_path
from shared.ledger.bundle_make import Selection, make_bundle
from shared.ledger.checkpoint import load_signer, parse_vkey
from shared.ledger.claims import Outside
from shared.ledger.key_chain import KeyChain
from shared.ledger.log import _Entry
from shared.ledger.repair import opened
from shared.ledger.rules import Rules
from shared.ledger.segment import list_segments
from shared.ledger.verdict import Findings

ORIGIN = "after.test"


class Clock:
    def __init__(self) -> None:
        self.us = 20_000 * DAY_US

    def __call__(self) -> tuple[int, int]:
        self.us += 1_000
        return self.us, self.us

    def seconds(self) -> float:
        return self.us / 1_000_000


class Pruned:
    """A log whose key was changed twice and whose records before a third segment were pruned."""

    def __init__(self, home: Path, prunings: int) -> None:
        self.log, self.home, clock = home / "log", home, Clock()
        self.receipts: list[str] = []
        with self.open(clock) as ledger:
            stores = stores_in(
                self.log,
                home / "keys",
                load_commitment_key(home / "keys"),
                clock=clock.seconds,
            )
            self.vkeys = [ledger.vkey]
            for left in (1, 0):
                self.fill(ledger)
                (home / f"prior{left}").write_text(ledger.checkpoint)
                line = Cosigner("w.test/w", bytes(range(32))).cosign(
                    ledger.checkpoint[: ledger.checkpoint.index("\n\n") + 1],
                    clock.us // 1_000_000,
                )
                ledger.add_cosignatures(ledger.size, [line])
                self.vkeys.append(ledger.rotate_key())
                self.fill(ledger)
                ledger.seal_now()
                clock.us += 2 * DAY_US
                if left < prunings:
                    ask = {"basis": "b", "operator": "o", "keep_days": 1}
                    assert prune(ledger, stores, ask)["segments"]
            self.fill(ledger)

    def open(self, clock: Clock) -> Ledger:
        return Ledger.open(self.log, keys=self.home / "keys", origin=ORIGIN, clock=clock)

    def fill(self, ledger: Ledger) -> None:
        for n in range(5):
            receipt = ledger.append("journal", {"task": "t", "ext": {"n": n}}).result()
        self.receipts.append(receipt.header())


@pytest.fixture(scope="module", params=(1, 2), ids=("pruned-once", "pruned-twice"))
def pruned(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pruned:
    return Pruned(tmp_path_factory.mktemp("pruned"), request.param)


def found(verdict: Verdict) -> set[str]:
    return {finding.code for finding in verdict.findings}


def noted(verdict: Verdict) -> dict[str, str]:
    return {note.code: note.sentence for note in verdict.notes}


def test_every_key_that_a_pruned_log_ever_had_verifies_it(pruned: Pruned) -> None:
    assert len(pruned.vkeys) == 3
    for vkey in (None, *pruned.vkeys):
        verdict = verify_path(pruned.log, vkey=vkey)
        assert (verdict.exit_code, found(verdict)) == (0, set())
        assert "pruned" in noted(verdict)


def test_what_an_older_key_signed_is_still_by_the_log(pruned: Pruned) -> None:
    outside = Outside(
        priors=(pruned.home / "prior1", pruned.home / "prior0"), receipts=pruned.receipts
    )
    verdict = verify_path(pruned.log, vkey=pruned.vkeys[0], outside=outside)
    assert (verdict.exit_code, found(verdict)) == (0, set())
    assert "not_comparable" in noted(verdict)


def test_a_key_that_never_was_the_logs_is_unknown_to_a_pruned_log(
    pruned: Pruned, tmp_path: Path
) -> None:
    stranger = load_signer(tmp_path, ORIGIN, create=True).key.vkey()
    assert found(verify_path(pruned.log, vkey=stranger)) == {"key_unknown"}


def test_a_rotation_that_the_old_key_did_not_sign_leads_nowhere(
    pruned: Pruned, tmp_path: Path
) -> None:
    with Ledger.open(pruned.log, keys=pruned.home / "keys", origin=ORIGIN) as ledger:
        erase = [record for record in ledger.records() if record["type"] == "erase"][-1]
    carried: list[dict[str, Any]] = erase["ext"]["rotations"]
    newest = carried[-1]["new"]
    stranger = load_signer(tmp_path, ORIGIN, create=True).key.vkey()
    forged = {**carried[-1], "old": stranger}
    others: list[Any] = [{**forged, "seq": "5"}, {"seq": 1}, None, [], {**carried[-1], "note": 7}]
    for bad in (forged, *others):
        chain = KeyChain(parse_vkey(newest))
        chain.carry([bad], 1_000)
        assert parse_vkey(stranger) not in chain
        assert chain.at(0) == chain.at(2_000) == (parse_vkey(newest),)
    chain = KeyChain(parse_vkey(newest))
    chain.carry([*carried, *reversed(carried)], 1_000)
    assert all(parse_vkey(one["old"]) in chain for one in carried)
    assert chain.at(0) == (parse_vkey(carried[0]["old"]),)
    assert chain.at(1_001) == (parse_vkey(newest),)


def test_a_neighbor_that_was_pruned_is_followed_from_the_key_it_had(pruned: Pruned) -> None:
    for at, vkey in enumerate(pruned.vkeys):
        assert follow_rotations(pruned.log, ORIGIN, vkey) == pruned.vkeys[at:]


def test_a_bundle_of_a_pruned_log_is_verified_with_every_key_of_it(
    pruned: Pruned, tmp_path: Path
) -> None:
    path = tmp_path / "bundle.zip"
    last = int(pruned.receipts[-1].split(";")[1])
    made = make_bundle([pruned.log], Selection(seqs=(last,)))
    path.write_bytes(made.data)
    assert set(made.logs[0].why.values()) == {"selected", "key"}
    for vkey in pruned.vkeys:
        verdict = verify_path(path, vkey=vkey)
        assert (verdict.exit_code, found(verdict)) == (0, set())
    stranger = load_signer(tmp_path, ORIGIN, create=True).key.vkey()
    assert "key_unknown" in found(verify_path(path, vkey=stranger))


def test_fields_of_a_kind_that_nobody_expects_are_judged_and_not_fallen_over(
    tmp_path: Path,
) -> None:
    odd: list[Any] = [["x"], {"x": 1}, 7, True, "x"]
    with Ledger.open(tmp_path / "log", keys=tmp_path / "keys", origin=ORIGIN) as ledger:
        prune_action = {"kind": "prune"}
        for one in odd:
            ledger._commit([_Entry("request", {"run": "r", "policy": {"digest": one}})])
            ledger._commit(
                [
                    _Entry("journal", {"policy": {"digest": one}, "gate": {"id": one}}),
                    _Entry("erase", {"action": prune_action, "ext": {"rotations": one}}),
                    _Entry("erase", {"action": prune_action, "ext": {"rotations": odd}}),
                    _Entry("recover", {"ext": {"accepted_loss": True, "lost_from": one}}),
                ]
            )
        size = ledger.size
    verdict = verify_path(tmp_path / "log")
    assert found(verdict) == {"request_unanswered"}
    assert "an unknown number of records" in noted(verdict)["loss_accepted"]
    path = tmp_path / "bundle.zip"
    path.write_bytes(make_bundle([tmp_path / "log"], Selection(seqs=tuple(range(size)))).data)
    assert verify_path(path, vkey=verdict.vkey).exit_code == 2


def test_a_batch_with_a_policy_that_is_no_text_is_judged_like_its_records() -> None:
    record = {"type": "request", "seq": 1, "ts": 1, "policy": {"digest": [], "decision": "allow"}}
    whole, single = Rules(Findings()), Rules(Findings())
    whole.batch([record], {"request"})
    single.look(record)
    assert list(whole.findings) == list(single.findings)
    assert whole.open == single.open == {1}


def lose(home: Path, reason: str, operator: str) -> Path:
    """Write a log, damage its third record, and accept that loss."""
    with Ledger.open(home / "log", keys=home / "keys", origin=ORIGIN) as ledger:
        for n in range(4):
            ledger.append("journal", {"ext": {"n": n}}).result()
    path = list_segments(home / "log")[0]
    path.write_bytes(path.read_bytes().replace(b'"n":1', b'"n":7'))
    with opened(home / "log", home / "keys") as work:
        work.accept_loss(reason, operator)
    return home / "log"


def test_an_accepted_loss_is_told_to_whoever_holds_nothing(tmp_path: Path) -> None:
    verdict = verify_path(lose(tmp_path, "the disk broke", "anna"))
    assert (verdict.exit_code, found(verdict)) == (0, set())
    assert noted(verdict)["loss_accepted"] == (
        "A loss of 3 records from record 2 on was accepted by anna (the disk broke), says record 2."
    )


def test_what_people_wrote_about_a_loss_cannot_steer_a_terminal(tmp_path: Path) -> None:
    log = lose(tmp_path, "\x1b[2Jgone\n" + "x" * 400, "mallory\u202e" * 40)
    sentence = noted(verify_path(log))["loss_accepted"]
    assert sentence.isprintable()
    assert "\\x1b[2Jgone\\x0a" in sentence
    assert len(sentence) < 800


def test_a_checkpoint_without_that_witness_is_a_wrong_call(tmp_path: Path) -> None:
    with Ledger.open(tmp_path / "log", keys=tmp_path / "keys", origin=ORIGIN) as ledger:
        note = ledger.checkpoint
    one, other = (Cosigner(f"w.test/{n}", bytes([n] * 32)) for n in (1, 2))
    signed = note + one.cosign(note[: note.index("\n\n") + 1], int(time.time())) + "\n"
    path = tmp_path / "held"

    def verify(text: str, vkey: str) -> Verdict:
        path.write_text(text)
        return verify_path(
            tmp_path / "log", outside=Outside(cosignatures=(path,), witnesses=(vkey,))
        )

    assert verify(signed, one.key.vkey()).exit_code == 0
    for text, vkey in ((signed, other.key.vkey()), (note, one.key.vkey()), (signed, "nonsense")):
        verdict = verify(text, vkey)
        assert (verdict.exit_code, found(verdict)) == (3, {"bad_evidence"})
    (finding,) = verify(note, one.key.vkey()).findings
    assert "has no cosignature by w.test/1; give" in finding.sentence
    head, _, line = signed.rstrip("\n").rpartition("\n")
    wrong = line[:-8] + ("A" if line[-8] != "A" else "B") + line[-7:]
    verdict = verify(f"{head}\n{wrong}\n", one.key.vkey())
    assert (verdict.exit_code, found(verdict)) == (1, {"cosignature_bad"})


@pytest.mark.parametrize("text", ["rubbish", "a;b", "nul\0", "x" * 5000])
def test_what_is_no_receipt_and_no_file_is_called_that_in_one_sentence(
    tmp_path: Path, text: str
) -> None:
    with Ledger.open(tmp_path / "log", keys=tmp_path / "keys", origin=ORIGIN):
        pass
    verdict = verify_path(tmp_path / "log", outside=Outside(receipts=(text,)))
    assert (verdict.exit_code, found(verdict)) == (3, {"bad_evidence"})
    (finding,) = verdict.findings
    assert "is neither a receipt nor a file that can be read" in finding.sentence
    assert "looks like origin;seq;size;root;signature" in finding.sentence
    assert len(finding.sentence) < 400
    assert finding.sentence.isprintable()
