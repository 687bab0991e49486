"""The witness: each answer of the protocol over a real socket, and what it must never do."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import anchor_service
import httpx
import pytest
from anchor_fakes import ORIGIN, PaperLog, signature_lines
from anchor_service import KEY
from hypothesis import given, settings
from hypothesis import strategies as st

from shared.anchors import serving
from shared.anchors.cosignature import verify_cosignatures
from shared.anchors.witness import MAX_REQUEST, Answer, Code, Witness, format_request, parse_request
from shared.anchors.witness_store import WitnessStore
from shared.ledger.checkpoint import Checkpoint, open_note
from shared.ledger.errors import LedgerError, NoteRefused
from shared.ledger.merkle import EMPTY_ROOT, verify_consistency
from shared.ledger.storage import Disk

LOG = PaperLog()
FORK = PaperLog(salt="other ")


class Service(anchor_service.Service):
    """A witness that knows paper logs."""

    def __init__(
        self, directory: Path, logs: Sequence[PaperLog] = (LOG,), disk: Disk | None = None
    ) -> None:
        super().__init__(directory, {log.origin: [log.signer.key] for log in logs}, disk=disk)

    def grow(self, old: int, new: int, log: PaperLog = LOG) -> httpx.Response:
        return self.post(format_request(old, log.proof(old, new), log.note(new)))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    made = Service(tmp_path / "w")
    yield made
    made.close()


def assert_cosigned(answer: httpx.Response, size: int, log: PaperLog = LOG) -> None:
    assert answer.status_code == 200, answer.text
    assert answer.text.endswith("\n")
    [found] = verify_cosignatures(log.note(size) + answer.text, [KEY.key])
    assert abs(found.time - time.time()) < 60


def test_a_log_grows_and_each_step_is_cosigned(service: Service) -> None:
    for old, new in itertools.pairwise([0, 1, 3, 3, 4, 8, 9, 64, 65]):
        assert_cosigned(service.grow(old, new), new)


def test_the_answer_is_only_the_witness_s_own_line(service: Service) -> None:
    text = service.grow(0, 3).text
    assert text.count("\u2014 ") == 1
    assert text.startswith("\u2014 witness.example.org ")


def test_an_old_size_that_is_not_the_latest_is_told_the_latest(service: Service) -> None:
    service.grow(0, 3)
    for old in (0, 1, 2, 4, 5):
        answer = service.grow(old, 5)
        assert (answer.status_code, answer.text) == (409, "3\n")
        assert answer.headers["content-type"] == "text/x.tlog.size"
    assert_cosigned(service.grow(3, 5), 5)


def test_an_unseen_log_with_an_old_size_is_told_zero(service: Service) -> None:
    answer = service.grow(2, 5)
    assert (answer.status_code, answer.text) == (409, "0\n")


def test_another_root_at_the_same_size_is_a_conflict(service: Service) -> None:
    service.grow(0, 5)
    answer = service.grow(5, 5, FORK)
    assert (answer.status_code, answer.text) == (409, "5\n")
    assert_cosigned(service.grow(5, 5), 5)


def test_a_fork_finds_no_proof(service: Service) -> None:
    service.grow(0, 5)
    assert service.grow(5, 9, FORK).status_code == 422
    assert_cosigned(service.grow(5, 9), 9)


def test_an_older_checkpoint_is_never_cosigned_again(service: Service) -> None:
    service.grow(0, 9)
    for old in range(10):
        answer = service.post(format_request(old, [], LOG.note(5)))
        assert answer.status_code == (400 if old > 5 else 409)


@pytest.mark.parametrize(
    "change",
    [
        lambda proof: [],
        lambda proof: proof[:-1],
        lambda proof: [*proof, proof[0]],
        lambda proof: proof[::-1],
        lambda proof: [bytes(32), *proof[1:]],
    ],
    ids=["none", "short", "long", "reversed", "changed"],
)
def test_a_wrong_proof_is_unprocessable(
    service: Service, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    service.grow(0, 3)
    answer = service.post(format_request(3, change(LOG.proof(3, 7)), LOG.note(7)))
    assert answer.status_code == 422
    assert_cosigned(service.grow(3, 7), 7)


def test_a_proof_from_nothing_must_be_empty(service: Service) -> None:
    answer = service.post(format_request(0, [bytes(32)], LOG.note(5)))
    assert answer.status_code == 422


def test_an_empty_tree_is_cosigned_and_grows(service: Service) -> None:
    assert LOG.root(0) == EMPTY_ROOT
    assert_cosigned(service.grow(0, 0), 0)
    assert service.post(format_request(0, [bytes(32)], LOG.note(5))).status_code == 422
    assert_cosigned(service.grow(0, 5), 5)


@pytest.mark.parametrize("before", [False, True], ids=["first", "after the true one"])
def test_an_empty_tree_has_one_root(service: Service, before: bool) -> None:
    if before:
        service.grow(0, 0)
    bogus = LOG.signer.sign(Checkpoint(ORIGIN, 0, b"\1" * 32).text())
    assert service.post(format_request(0, [], bogus)).status_code == 422


def test_an_unknown_log_is_not_found(service: Service) -> None:
    stranger = PaperLog("log.example.org/two")
    assert service.grow(0, 3, stranger).status_code == 404


def test_a_signature_by_a_stranger_is_forbidden(service: Service) -> None:
    stranger = PaperLog(ORIGIN, seed=b"x" * 32)
    assert service.grow(0, 3, stranger).status_code == 403


def test_a_wrong_signature_under_the_known_key_is_forbidden(service: Service) -> None:
    three, four = LOG.note(3), LOG.note(4)
    forged = three.partition("\n\n")[0] + "\n\n" + four.partition("\n\n")[2]
    assert service.post(format_request(0, [], forged)).status_code == 403
    assert service.grow(0, 3).status_code == 200


def test_signatures_by_others_beside_the_log_s_are_ignored(service: Service) -> None:
    other = PaperLog(ORIGIN, seed=b"x" * 32).note(3)
    note = LOG.note(3) + signature_lines(other)[0] + "\n"
    assert_cosigned(service.post(format_request(0, [], note)), 3)


def test_extension_lines_are_refused(service: Service) -> None:
    text = Checkpoint(ORIGIN, 3, LOG.root(3)).text() + "something more\n"
    answer = service.post(format_request(0, [], LOG.signer.sign(text)))
    assert answer.status_code == 400
    assert "extension" in answer.text


def test_a_forged_line_of_the_witness_does_not_poison_its_memory(tmp_path: Path) -> None:
    service = Service(tmp_path / "w")
    stale = KEY.cosign(Checkpoint(ORIGIN, 9, LOG.root(9)).text(), 1)  # of another checkpoint
    poisoned = f"{LOG.note(3)}{stale}\n"
    assert_cosigned(service.post(format_request(0, [], poisoned)), 3)
    assert_cosigned(service.grow(3, 5), 5)
    assert_cosigned(service.post(format_request(5, [], f"{LOG.note(5)}{stale}\n")), 5)
    service.close()
    [stored] = (tmp_path / "w" / "logs").iterdir()
    assert KEY.key.name not in stored.read_text()
    assert open_note(stored.read_text(), [LOG.signer.key])
    again = Service(tmp_path / "w")
    assert_cosigned(again.grow(5, 6), 6)
    again.close()


def good_request() -> bytes:
    return format_request(3, LOG.proof(3, 7), LOG.note(7))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"old 3", b"old 03"),
        (b"old 3", b"old -3"),
        (b"old 3", b"old  3"),
        (b"old 3", b"Old 3"),
        (b"old 3", b"old 3 "),
        (b"old 3", b"old"),
        (b"old 3", b"3"),
        (b"old 3", b"\nold 3"),
        (b"old 3\n", b"old 3\r\n"),
        (b"old 3", b"old 99999999999999999999999"),
        (b"old 3", b"old 8"),
        (b"old 3\n", b"old 3\nAAAA\n"),
        (b"old 3\n", b"old 3\n" + b"A" * 43 + b"\n"),
        (b"old 3\n", b"old 3\n" + b"A" * 42 + b"B=\n"),
        (b"old 3\n", b"old 3\n" + (b"A" * 43 + b"=\n") * 64),
        (b"\n\n", b"\n"),
        (b"\n7\n", b"\n07\n"),
        (b"\n7\n", b"\nseven\n"),
        (b"\n7\n", b"\n7\n\n"),
        (ORIGIN.encode(), b""),
        (ORIGIN.encode(), b"\xff"),
        ("\u2014 ".encode(), b"- "),
    ],
)
def test_a_malformed_request_is_bad(service: Service, before: bytes, after: bytes) -> None:
    body = good_request()
    assert before in body
    assert service.post(body.replace(before, after, 1)).status_code == 400
    assert service.post(b"").status_code == 400


def test_a_note_without_its_last_newline_or_signature_is_bad(service: Service) -> None:
    body = format_request(0, [], LOG.note(3))
    assert service.post(body[:-1]).status_code == 400
    assert service.post(body[: body.rindex(b"\n\n") + 1]).status_code == 400
    assert service.grow(0, 3).status_code == 200


def test_other_paths_and_methods_do_nothing(service: Service) -> None:
    assert service.client.get(f"{service.url}/add-checkpoint").status_code == 405
    assert service.client.post(f"{service.url}/").status_code == 404


def test_a_body_without_end_is_cut_off(service: Service) -> None:
    assert service.post(b"x" * (MAX_REQUEST + 1)).status_code == 413

    def endless() -> Iterator[bytes]:
        while True:
            yield b"old 0\n" * 1000

    try:
        answer = service.client.post(f"{service.url}/add-checkpoint", content=endless())
        assert answer.status_code == 413
    except httpx.TransportError:
        pass  # closed while we were still sending: as good
    assert service.grow(0, 3).status_code == 200


def test_a_client_that_says_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import socket

    monkeypatch.setattr(serving, "PATIENCE", 0.2)
    service = Service(tmp_path / "w")
    host, port = service.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 10) as silent:
        silent.settimeout(10)
        with pytest.raises(ConnectionError):
            silent.recv(1) or (_ for _ in ()).throw(ConnectionError)
    with socket.create_connection((host, int(port)), 10) as slow:
        slow.sendall(b"POST /add-checkpoint HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\nold")
        slow.settimeout(10)
        assert b" 408 " in slow.recv(4096)
    service.close()


def test_racing_requests_leave_one_history(service: Service) -> None:
    """Two branches that grow from the same root: whichever comes first, the other is refused."""
    service.grow(0, 3)  # below the place where FORK leaves LOG
    answers: list[tuple[PaperLog, int, int]] = []

    def race(log: PaperLog) -> None:
        with httpx.Client(timeout=20) as client:
            for new in range(4, 24):
                body = format_request(3, log.proof(3, new), log.note(new))
                answer = client.post(f"{service.url}/add-checkpoint", content=body)
                answers.append((log, new, answer.status_code))
                if answer.status_code == 409:
                    old = int(answer.text)
                    if old <= new:
                        body = format_request(old, log.proof(old, new), log.note(new))
                        answer = client.post(f"{service.url}/add-checkpoint", content=body)
                        answers.append((log, new, answer.status_code))

    racers = [threading.Thread(target=race, args=(log,)) for log in (LOG, FORK) * 2]
    for racer in racers:
        racer.start()
    for racer in racers:
        racer.join(60)
    assert len({id(log) for log, _, code in answers if code == 200}) == 1


# -- memory ---------------------------------------------------------------------------------------


class BrokenDisk(Disk):
    """Fails at the chosen call of `sync` or `rename`."""

    fail = ""

    def sync(self, fd: int) -> None:
        if self.fail == "sync":
            raise OSError(5, "Input/output error")
        super().sync(fd)

    def rename(self, old: Path, new: Path) -> None:
        if self.fail == "rename":
            raise OSError(28, "No space left on device")
        super().rename(old, new)


@pytest.mark.parametrize("fault", ["sync", "rename"])
def test_what_cannot_be_stored_is_not_cosigned(tmp_path: Path, fault: str) -> None:
    disk = BrokenDisk()
    service = Service(tmp_path / "w", disk=disk)
    service.grow(0, 3)
    disk.fail = fault
    answer = service.grow(3, 5)
    assert answer.status_code == 500
    assert "\u2014" not in answer.text
    assert service.said
    disk.fail = ""
    assert_cosigned(service.grow(3, 4), 4)
    service.close()


def test_a_restarted_witness_remembers(tmp_path: Path) -> None:
    first = Service(tmp_path / "w")
    first.grow(0, 5)
    first.close()
    second = Service(tmp_path / "w")
    assert second.grow(0, 9, FORK).text == "5\n"
    assert second.grow(5, 9, FORK).status_code == 422
    assert_cosigned(second.grow(5, 9), 9)
    second.close()


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"\n5\n", b"\n4\n"))


@pytest.mark.parametrize("harm", [damage, Path.unlink, lambda path: path.write_bytes(b"")])
def test_a_witness_that_forgot_refuses_to_start(
    tmp_path: Path, harm: Callable[[Path], object]
) -> None:
    service = Service(tmp_path / "w")
    service.grow(0, 5)
    service.close()
    [note] = (tmp_path / "w" / "logs").iterdir()
    harm(note)
    for _ in range(2):
        with pytest.raises(LedgerError, match=r"restore|retire"):
            WitnessStore(tmp_path / "w", {ORIGIN: [LOG.signer.key]})


def test_two_witnesses_never_share_a_memory(tmp_path: Path) -> None:
    first = WitnessStore(tmp_path, {})
    with pytest.raises(LedgerError, match="Another witness"):
        WitnessStore(tmp_path, {})
    first.close()
    WitnessStore(tmp_path, {}).close()


def test_logs_are_kept_apart(tmp_path: Path) -> None:
    other = PaperLog("log.example.org/two", seed=b"2" * 32, salt="two ")
    service = Service(tmp_path / "w", (LOG, other))
    assert_cosigned(service.grow(0, 5), 5)
    assert_cosigned(service.grow(0, 8, other), 8, other)
    assert_cosigned(service.grow(5, 6), 6)
    service.close()


# -- properties -----------------------------------------------------------------------------------


class MemoryStore:
    def __init__(self) -> None:
        self.kept: dict[str, Checkpoint] = {}

    def get(self, origin: str) -> Checkpoint | None:
        return self.kept.get(origin)

    def put(self, checkpoint: Checkpoint, note: str) -> None:
        self.kept[checkpoint.origin] = checkpoint


@given(st.binary(max_size=400))
def test_no_bytes_make_the_request_parser_fail_otherwise(body: bytes) -> None:
    with pytest.raises(NoteRefused):
        parse_request(body)


@given(st.data())
def test_a_mangled_request_is_answered_and_never_moves_the_memory(data: st.DataObject) -> None:
    store = MemoryStore()
    witness = Witness(KEY, {ORIGIN: [LOG.signer.key]}, store)
    witness.add_checkpoint(format_request(0, [], LOG.note(3)))
    body = bytearray(good_request())
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] ^= data.draw(st.integers(1, 255))
    answer = witness.add_checkpoint(bytes(body))
    assert answer.code is not Code.OK
    assert store.kept[ORIGIN].size == 3


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.booleans(), st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=25
    )
)
def test_what_was_cosigned_is_always_one_history(steps: list[tuple[bool, int, int]]) -> None:
    witness = Witness(KEY, {ORIGIN: [LOG.signer.key]}, MemoryStore())
    cosigned: list[tuple[PaperLog, int]] = []
    for fork, old, new in steps:
        log = FORK if fork else LOG
        proof = log.proof(old, new) if old <= new else []
        answer: Answer = witness.add_checkpoint(format_request(old, proof, log.note(new)))
        if answer.code is Code.OK:
            cosigned.append((log, new))
    for (_, small), (log, large) in itertools.pairwise(cosigned):
        assert small <= large
        if small:
            older = next(entry for entry in cosigned if entry[1] == small)
            assert verify_consistency(
                small, large, older[0].root(small), log.root(large), log.proof(small, large)
            )
