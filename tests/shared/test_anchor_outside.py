"""Time stamps, OpenTimestamps and copies: real programs and sockets, a local authority."""

from __future__ import annotations

import hashlib
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from anchor_fakes import LocalAuthority, LocalCalendar, PaperLog, serve_calendar, serve_http

from shared.anchors import copies, ots, programs, tsa
from shared.anchors.copies import CommandCopy, FileCopy, NoteCopy, SyslogCopy, parse_syslog
from shared.anchors.errors import AnchorError
from shared.anchors.files import (
    Head,
    head_of,
    keep_checkpoint,
    keep_cosignatures,
    published_head,
    thin_out,
)
from shared.anchors.programs import run_program
from shared.anchors.tsa import Authority, check_response, stamp_head
from shared.ledger import Ledger

LOG = PaperLog()


def head(size: int = 7) -> Head:
    return head_of(LOG.note(size), [LOG.signer.key])


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> LocalAuthority:
    return LocalAuthority(tmp_path_factory.mktemp("tsa"))


# -- RFC 3161 -------------------------------------------------------------------------------------


def test_a_stamp_over_http_is_stored_and_openssl_agrees(
    authority: LocalAuthority, tmp_path: Path
) -> None:
    with serve_http(authority.answer) as url:
        stamp = stamp_head(tmp_path, head(), Authority(url=url, ca_file=authority.ca))
    assert stamp.chained
    assert stamp.path == tmp_path / "anchors" / "7.tsr"
    checked = subprocess.run(
        [
            *("openssl", "ts", "-verify", "-in", stamp.path, "-CAfile", authority.ca),
            *("-data", tmp_path / "anchors" / "7.checkpoint"),
        ],
        check=False,
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stderr
    assert (tmp_path / "anchors" / "7.checkpoint").read_text() == LOG.note(7)
    assert stamp.ext()["kind"] == "rfc3161"
    assert stamp.ext()["size"] == 7


def test_a_stamp_by_a_command(authority: LocalAuthority, tmp_path: Path) -> None:
    stamp = stamp_head(tmp_path, head(), Authority(command=authority.command()))
    assert not stamp.chained
    assert stamp.ext()["chain"] == "unknown"


def test_a_stamp_that_leads_to_another_authority_is_refused(
    authority: LocalAuthority, tmp_path: Path
) -> None:
    other = LocalAuthority(tmp_path / "other")
    with pytest.raises(AnchorError, match="tsa_ca_file"):
        stamp_head(tmp_path, head(), Authority(command=authority.command(), ca_file=other.ca))
    assert not (tmp_path / "anchors" / "7.tsr").exists()


def test_a_stamp_for_other_bytes_or_of_another_request_is_refused(
    authority: LocalAuthority,
) -> None:
    request = tsa._request(b"one")
    answer = authority.answer(request.as_bytes())
    assert check_response(answer, b"one", nonce=request.nonce, roots=[])
    with pytest.raises(AnchorError, match="other bytes"):
        check_response(answer, b"two", nonce=request.nonce, roots=[])
    with pytest.raises(AnchorError, match="another request"):
        check_response(answer, b"one", nonce=1, roots=[])


def test_no_changed_byte_of_a_response_is_taken_for_a_stamp(authority: LocalAuthority) -> None:
    request = tsa._request(b"one")
    answer = authority.answer(request.as_bytes())
    roots = tsa._certificates(authority.ca)
    refused = 0
    for at in range(0, len(answer), 37):
        changed = answer[:at] + bytes([answer[at] ^ 0x55]) + answer[at + 1 :]
        try:
            response = check_response(changed, b"one", nonce=request.nonce, roots=roots)
        except AnchorError:
            refused += 1
        else:  # only what no signature covers may differ: what is stamped and when do not
            good = check_response(answer, b"one", nonce=request.nonce, roots=roots)
            assert response.tst_info.gen_time == good.tst_info.gen_time
    assert refused > 10


@pytest.mark.parametrize("answer", [b"", b"no", b"<html>", b"\x30\x03\x02\x01\x00", b"\x30" * 500])
def test_what_is_no_response_is_refused(answer: bytes, tmp_path: Path) -> None:
    with serve_http(lambda _: answer) as url, pytest.raises(AnchorError):
        stamp_head(tmp_path, head(), Authority(url=url))


def test_a_refusal_of_the_authority_is_told(authority: LocalAuthority, tmp_path: Path) -> None:
    broken = authority.answer(b"\x30\x03\x02\x01\x01")
    with serve_http(lambda _: broken) as url, pytest.raises(AnchorError, match="granted no stamp"):
        stamp_head(tmp_path, head(), Authority(url=url))


def test_an_authority_that_is_gone_or_answers_an_error_is_told(tmp_path: Path) -> None:
    with pytest.raises(AnchorError, match="cannot be asked"):
        stamp_head(tmp_path, head(), Authority(url="http://127.0.0.1:1/"))
    with serve_http(lambda _: None) as url, pytest.raises(AnchorError, match="status 500"):
        stamp_head(tmp_path, head(), Authority(url=url))


def test_an_endless_answer_is_cut_off(tmp_path: Path) -> None:
    with serve_http(lambda _: b"x" * (2 << 20)) as url, pytest.raises(AnchorError, match="longer"):
        stamp_head(tmp_path, head(), Authority(url=url))


def test_certificates_that_are_none_are_named(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(AnchorError, match="tsa_ca_file"):
        stamp_head(tmp_path, head(), Authority(url="http://x", ca_file=tmp_path / "ca.pem"))


# -- OpenTimestamps -------------------------------------------------------------------------------


def calendar(digest: bytes) -> bytes:
    """What a calendar answers: a promise under its own name."""
    from opentimestamps.core.notary import PendingAttestation
    from opentimestamps.core.serialize import BytesSerializationContext
    from opentimestamps.core.timestamp import Timestamp

    stamp = Timestamp(digest)
    stamp.attestations.add(PendingAttestation("https://calendar.example.org"))
    context = BytesSerializationContext()
    stamp.serialize(context)
    return context.getbytes()


def ots_program() -> str:
    pytest.importorskip("otsclient")
    return str(Path(sys.executable).parent / "ots")


def test_ots_leaves_a_proof_for_our_bytes(tmp_path: Path) -> None:
    program = ots_program()
    with serve_http(calendar) as url:
        ext = ots.stamp_head(tmp_path, head(), program, [url])
    assert ext["kind"] == "ots"
    proof = tmp_path / "anchors" / "7.ots"
    info = subprocess.run([program, "info", proof], check=False, capture_output=True, text=True)
    assert "calendar.example.org" in info.stdout
    assert sorted(path.name for path in proof.parent.iterdir()) == ["7.checkpoint", "7.ots"]


def test_a_calendar_that_is_gone_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(AnchorError, match="ots"):
        ots.stamp_head(tmp_path, head(), ots_program(), ["http://127.0.0.1:1"])
    assert not (tmp_path / "anchors" / "7.ots").exists()


def test_a_pending_proof_is_completed_once_the_calendar_has_the_rest(tmp_path: Path) -> None:
    program, place = ots_program(), tmp_path / "log"
    with Ledger.open(place, keys=tmp_path / "keys", origin="ots.test") as ledger:
        ledger.append("deny", {}).result(10)
    published = published_head(place)
    with serve_calendar(LocalCalendar()) as calendar:
        ots.stamp_head(place, published, program, [calendar.url])
        path = place / "anchors" / f"{published.size}.ots"
        before = path.read_bytes()
        assert ots.upgrade_proof(place, published.size, program, [calendar.url]) is None
        assert path.read_bytes() == before
        assert calendar.asked
        calendar.mined = True
        ext = ots.upgrade_proof(place, published.size, program, [calendar.url])
        assert ext is not None
        after = path.read_bytes()
        assert (ext["state"], ext["size"]) == ("complete", published.size)
        assert ext["sha256"] == hashlib.sha256(after).hexdigest()
        assert ots.upgrade_proof(place, published.size, program, [calendar.url]) == ext
        assert path.read_bytes() == after
    info = subprocess.run([program, "info", path], check=False, capture_output=True, text=True)
    assert "BitcoinBlockHeaderAttestation(800000)" in info.stdout
    assert [path.name for path in (place / "anchors").iterdir() if "bak" in path.name] == []


def test_a_program_that_spoils_a_proof_changes_nothing(tmp_path: Path) -> None:
    place = tmp_path / "log"
    with Ledger.open(place, keys=tmp_path / "keys", origin="ots.test") as ledger:
        ledger.append("deny", {}).result(10)
    published = published_head(place)
    with serve_calendar(LocalCalendar()) as calendar:
        ots.stamp_head(place, published, ots_program(), [calendar.url])
    path = place / "anchors" / f"{published.size}.ots"
    before = path.read_bytes()
    program = tmp_path / "ots"
    for script, named in (
        ('for last; do :; done; echo spoiled > "$last"', "not for the checkpoint"),
        ("exit 7", "status 7"),
    ):
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        with pytest.raises(AnchorError, match=named):
            ots.upgrade_proof(place, published.size, str(program))
        assert path.read_bytes() == before
    path.chmod(0o600)
    path.write_bytes(b"something else")
    with pytest.raises(AnchorError, match="not for the checkpoint"):
        ots.upgrade_proof(place, published.size, ots_program())


def test_a_proof_for_other_bytes_is_not_kept(tmp_path: Path) -> None:
    program = tmp_path / "ots"
    program.write_text('#!/bin/sh\nfor last; do :; done\nhead -c 99 /dev/zero > "$last.ots"\n')
    program.chmod(0o755)
    with pytest.raises(AnchorError, match="not for the checkpoint"):
        ots.stamp_head(tmp_path, head(), str(program))


# -- copies ---------------------------------------------------------------------------------------


def test_a_command_gets_the_note_on_its_input(tmp_path: Path) -> None:
    CommandCopy(("sh", "-c", 'cat > "$0"', str(tmp_path / "got"))).send(head())
    assert (tmp_path / "got").read_text() == LOG.note(7)


@pytest.mark.parametrize(
    ("command", "wrong"),
    [
        (("false",), "status 1"),
        (("/nowhere/program",), "cannot be run"),
        (("sh", "-c", "cat /dev/zero | head -c 3000000"), "printed more"),
    ],
)
def test_a_command_that_fails_is_told(command: tuple[str, ...], wrong: str) -> None:
    with pytest.raises(AnchorError, match=wrong):
        CommandCopy(command).send(head())


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_command_that_hangs_is_ended_with_all_its_children(tmp_path: Path) -> None:
    script = f"sleep 60 & echo $! > {tmp_path}/pid; wait"
    with pytest.raises(AnchorError, match="took more than"):
        run_program(["sh", "-c", script], timeout=0.5)
    pid = int((tmp_path / "pid").read_text())
    deadline = time.monotonic() + 10
    while lives(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not lives(pid)


def test_a_file_gets_a_line_for_each_head(tmp_path: Path) -> None:
    copy = FileCopy(tmp_path / "heads")
    copy.send(head(7))
    copy.send(head(8))
    first, second = (tmp_path / "heads").read_text().splitlines()
    origin, size, root, when = first.split(" ")
    assert (origin, size) == (LOG.origin, "7")
    assert root == LOG.note(7).splitlines()[2]
    assert int(when) > 1_700_000_000
    assert second.split(" ")[1] == "8"


def test_a_note_file_is_always_the_newest_note(tmp_path: Path) -> None:
    copy = NoteCopy(tmp_path / "HEAD")
    for size in (7, 8):
        copy.send(head(size))
        assert (tmp_path / "HEAD").read_text() == LOG.note(size)


@pytest.mark.parametrize("make", [FileCopy, NoteCopy])
def test_a_file_that_cannot_be_written_is_told(
    make: Callable[[Path], FileCopy | NoteCopy], tmp_path: Path
) -> None:
    with pytest.raises(AnchorError, match="cannot be copied"):
        make(tmp_path / "missing" / "heads").send(head())


def syslog_socket(kind: str, tmp_path: Path) -> tuple[socket.socket, str]:
    if kind == "unix":
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        channel.bind(str(tmp_path / "log"))
        return channel, f"unix:{tmp_path / 'log'}"
    channel = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    channel.bind(("127.0.0.1", 0))
    return channel, f"udp:127.0.0.1:{channel.getsockname()[1]}"


@pytest.mark.parametrize("kind", ["unix", "udp"])
def test_syslog_gets_an_rfc_5424_message(kind: str, tmp_path: Path) -> None:
    channel, address = syslog_socket(kind, tmp_path)
    channel.settimeout(5)
    parse_syslog(address).send(head())
    words = channel.recv(4096).decode().split(" ")
    channel.close()
    assert words[0] == "<109>1"
    assert words[1].endswith("Z")
    assert words[3] == "sphragis"
    assert words[5:7] == ["ledger-head", "-"]
    assert words[7:9] == [LOG.origin, "7"]


@pytest.mark.parametrize("address", ["", "/dev/log", "unix:log", "udp:host", "udp::514", "tcp:h:1"])
def test_a_syslog_address_of_another_form_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="write unix"):
        parse_syslog(address)


def test_a_syslog_that_is_gone_is_told(tmp_path: Path) -> None:
    with pytest.raises(AnchorError, match="cannot be sent"):
        SyslogCopy(f"unix:{tmp_path}/none").send(head())


# -- files ----------------------------------------------------------------------------------------


def test_a_checkpoint_of_another_history_is_never_replaced(tmp_path: Path) -> None:
    fork = PaperLog(salt="other ")
    keep_checkpoint(tmp_path, head())
    keep_checkpoint(tmp_path, head())
    with pytest.raises(AnchorError, match="another history"):
        keep_checkpoint(tmp_path, head_of(fork.note(7), [fork.signer.key]))
    assert (tmp_path / "anchors" / "7.checkpoint").read_text() == LOG.note(7)


def test_cosignatures_of_several_witnesses_stand_side_by_side(tmp_path: Path) -> None:
    from shared.anchors.cosignature import Cosigner

    keep_checkpoint(tmp_path, head())
    text = head().checkpoint.text()
    one, two = Cosigner("one.example", b"1" * 32), Cosigner("two.example", b"2" * 32)
    path = keep_cosignatures(tmp_path, 7, [one.cosign(text, 1), two.cosign(text, 1)])
    keep_cosignatures(tmp_path, 7, [one.cosign(text, 2)])
    assert path.read_text().splitlines() == [one.cosign(text, 2), two.cosign(text, 1)]


def test_old_cosigned_checkpoints_are_thinned_and_stamped_ones_stay(tmp_path: Path) -> None:
    for size in range(1, 31):
        keep_checkpoint(tmp_path, head(size))
        keep_cosignatures(tmp_path, size, ["\u2014 w AAAA"])
    (tmp_path / "anchors" / "3.tsr").write_bytes(b"")
    assert thin_out(tmp_path, newest=10, span=1 << 40) == 18
    left = sorted(int(path.stem) for path in (tmp_path / "anchors").glob("*.checkpoint"))
    assert left == [3, 20, *range(21, 31)]


def test_programs_never_print_what_a_program_says(capfd: pytest.CaptureFixture[str]) -> None:
    run_program(["sh", "-c", "echo secret >&2"])
    assert capfd.readouterr().err == ""
    assert programs.TIMEOUT <= 30
    assert copies.TIMEOUT <= 10
