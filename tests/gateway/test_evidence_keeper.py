"""What the gateway keeps of a call, as its policy says, without a gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from gateway import evidence as keeping
from gateway import expiring
from gateway.erasing import EvidenceRefused, done, finish_interrupted
from gateway.evidence import NOTHING, OTHER_MEDIA, Evidence, EvidenceUnavailable, KeptNow, Owner
from gateway.expiring import expire
from gateway.metrics import Metrics
from gateway.redaction.policy import PolicyError
from gateway.redaction.policy_file import parse_policy
from gateway.usage import UsageMeter
from shared.evidence.erase import erase
from shared.evidence.errors import EvidenceError
from shared.evidence.retention import DAY_US, Retention
from shared.evidence.rules import EvidenceRules, Keep, Subject
from shared.evidence.stores import Stores, stores_in
from shared.ledger import Ledger

DAY = 20_000
OWNER = Owner("a" * 64, "b" * 64)
BOTH = EvidenceRules(keep=Keep.BOTH)


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return stores_in(
        tmp_path / "log", tmp_path / "keys", b"t" * 32, clock=lambda: (DAY * DAY_US + 1) / 1e6
    )


@pytest.fixture
async def keeper(stores: Stores, tmp_path: Path) -> AsyncIterator[Evidence]:
    (tmp_path / "log").mkdir()
    made = Evidence(BOTH, stores)
    made.open()
    yield made
    await made.close()
    stores.close()


async def answered(keeper: Evidence, pieces: list[bytes], media: str = "text/plain") -> KeptNow:
    collector = keeper.collector()
    assert collector is not None
    for piece in pieces:
        collector.add(piece)
    told: asyncio.Future[KeptNow] = asyncio.get_running_loop().create_future()
    keeper.answer("call", OWNER, collector, media, told.set_result)
    return await told


async def test_a_request_and_its_answer_open_again_under_one_key(
    keeper: Evidence, stores: Stores
) -> None:
    kept = await keeper.request("call", OWNER, b"sent", "application/json; charset=utf-8", 3)
    answer = await answered(keeper, [b"re", b"ceived"])
    (sent,), (received,) = kept.entries, answer.entries
    assert (sent["media"], sent["bytes"], sent["redactions"]) == ("application/json", 4, 3)
    assert sent["keyid"] == received["keyid"]
    assert stores.store.read({"id": "call", "type": "request"}, sent) == b"sent"
    assert stores.store.read({"id": "call", "type": "outcome"}, received) == b"received"
    with pytest.raises(EvidenceError):
        stores.store.read({"id": "call", "type": "outcome"}, sent)
    assert keeper.waiting == 0
    assert kept.fields() == {"evidence": [sent]}
    assert kept.ext() == {}


async def test_a_class_is_named_with_its_end(stores: Stores, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    keeper = Evidence(replace(BOTH, retention=Retention("ai-act", 200)), stores)
    keeper.open()
    kept = await keeper.request("call", OWNER, b"x", "text/plain", 0)
    end = (DAY + 1 + 200) * DAY_US
    assert kept.fields()["retention"] == {"class": "ai-act", "until": end}
    assert [item.until for item in stores.keys.all()] == [end]
    await keeper.close()
    stores.close()


async def test_an_answer_too_large_is_dropped_and_named(keeper: Evidence) -> None:
    kept = await answered(keeper, [b"x" * 3_000_000, b"x" * 3_000_000, b"more"])
    assert (kept.entries, kept.ext()) == ((), {"evidence_left_out": "size"})
    assert keeper.waiting == 0
    assert await answered(keeper, []) is NOTHING


async def test_memory_is_bounded_over_all_answers(
    keeper: Evidence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping, "MAX_WAITING", 100)
    one, two = keeper.collector(), keeper.collector()
    assert one is not None
    assert two is not None
    one.add(b"x" * 90)
    two.add(b"x" * 20)
    assert two.left_out == "memory"
    assert keeper.waiting == 90
    keeper.waiting += 50
    with pytest.raises(EvidenceUnavailable) as wrong:
        await keeper.request("call", OWNER, b"x", "text/plain", 0)
    assert wrong.value.passing
    keeper.waiting -= 50
    one.release()
    one.release()
    assert keeper.waiting == 0


async def test_a_media_type_that_is_none_is_not_repeated(keeper: Evidence) -> None:
    for media in ("jane@corp.example", "text/" + "x" * 99, "", "text/<b>"):
        kept = await keeper.request("call", OWNER, b"x", media, 0)
        assert kept.entries[0]["media"] == OTHER_MEDIA


async def test_what_cannot_be_kept_is_refused_or_named(stores: Stores, tmp_path: Path) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "evidence").write_text("in the way")
    metrics = Metrics(UsageMeter())
    keeper = Evidence(BOTH, stores, metrics.evidence_failure)
    keeper.open()
    with pytest.raises(EvidenceUnavailable, match="cannot be kept") as wrong:
        await keeper.request("call", OWNER, b"sent", "text/plain", 0)
    assert not wrong.value.passing
    assert (await answered(keeper, [b"x"])).left_out == "failed"
    assert b"sphragis_evidence_failures_total 2.0" in metrics.render()
    await keeper.close()
    lenient = Evidence(replace(BOTH, required=False), stores)
    lenient.open()
    assert (await lenient.request("call", OWNER, b"x", "text/plain", 0)).left_out == "failed"
    await lenient.close()
    stores.close()


async def test_off_means_nothing_is_opened_or_made(stores: Stores, tmp_path: Path) -> None:
    keeper = Evidence(EvidenceRules(), stores)
    keeper.open()
    assert await keeper.request("call", OWNER, b"x", "text/plain", 0) is NOTHING
    assert keeper.collector() is None
    assert keeper.owner_of("ops", "run", {"session-id": "s"}) == Owner()
    told: list[KeptNow] = []
    keeper.answer("call", OWNER, None, "text/plain", told.append)
    assert told == [NOTHING]
    await keeper.close()
    assert list(tmp_path.iterdir()) == []


def test_the_owner_is_a_keyed_hash_of_what_the_policy_names(stores: Stores) -> None:
    headers = {"session-id": "s", "x-user": " jane "}

    def of(subject: Subject, role: str = "ops", **given: str) -> Owner:
        rules = replace(BOTH, subject=subject, header="x-user")
        return Evidence(rules, stores).owner_of(role, "run7", given or headers)

    assert of(Subject.ROLE) == Owner(stores.subject_c("ops"), stores.session_c("s"))
    assert of(Subject.SESSION).subject_c == stores.subject_c("s")
    assert of(Subject.HEADER).subject_c == stores.subject_c("jane")
    assert of(Subject.HEADER, other="x") == Owner(stores.subject_c("ops"), stores.session_c("run7"))
    assert of(Subject.ROLE, role="").subject_c == stores.subject_c("-")
    assert stores.subject_c("s") != stores.session_c("s")


# -- the policy's table ----------------------------------------------------------------------------


def rules(table: str) -> EvidenceRules:
    text = f'id = "t"\nversion = "1"\n[evidence]\n{table}'
    return parse_policy(text, source="p.toml", directory=None).evidence


def test_a_policy_without_the_table_keeps_nothing() -> None:
    assert parse_policy('id = "t"\nversion = "1"', source="p", directory=None).evidence.is_on is (
        False
    )
    assert not rules("").is_on


def test_the_table_is_read() -> None:
    found = rules(
        'keep = "both"\nsubject = "header:X-User-Id"\nmax_bytes = 10\nmedia = ["text/*"]\n'
        'required = false\nretention = { class = "sec-17a-4", days = 2200 }\nerase_expired = true'
    )
    assert found == EvidenceRules(
        Keep.BOTH,
        Subject.HEADER,
        "x-user-id",
        Retention("sec-17a-4", 2200),
        10,
        ("text/*",),
        False,
        True,
    )
    assert found.takes("text/plain")
    assert not found.takes("application/json")


@pytest.mark.parametrize(
    ("table", "named"),
    [
        ("kepp = 1", "unknown key 'evidence.kepp'"),
        ('keep = "all"', "evidence.keep is 'all'"),
        ("keep = true", "evidence.keep is 'True'"),
        ('subject = "user"', "evidence.subject must be"),
        ('subject = "header:"', "evidence.subject must be"),
        ('subject = "header:authorization"', "no credential"),
        ("subject = 1", "evidence.subject must be"),
        ("max_bytes = 0", "evidence.max_bytes"),
        ("max_bytes = true", "evidence.max_bytes"),
        ("max_bytes = 1000000000", "evidence.max_bytes"),
        ("media = []", "evidence.media"),
        ('media = ["json"]', "evidence.media"),
        ('required = "yes"', "evidence.required"),
        ("erase_expired = 1", "evidence.erase_expired must be"),
        ("erase_expired = true", "evidence.erase_expired needs evidence.retention"),
        ("retention = 3", "evidence.retention must be a table"),
        ("retention = { days = 3 }", "evidence.retention.class"),
        ('retention = { class = "A B", days = 3 }', "evidence.retention.class"),
        ('retention = { class = "own" }', "evidence.retention.days"),
        ('retention = { class = "own", days = 0 }', "evidence.retention.days"),
        ('retention = { class = "own", days = 3, weeks = 1 }', "evidence.retention.weeks"),
        ('retention = { class = "ai-act", days = 100 }', "asks for at least 184"),
        ('retention = { class = "sec-17a-4", days = 365 }', "asks for at least 1096"),
    ],
)
def test_a_table_that_cannot_be_kept_is_one_sentence(table: str, named: str) -> None:
    with pytest.raises(PolicyError, match=r"p\.toml") as wrong:
        rules(table)
    assert named in str(wrong.value)
    assert str(wrong.value).endswith(".")


# -- the start -------------------------------------------------------------------------------------


def test_lost_keys_stop_a_start_only_where_evidence_is_kept(stores: Stores, tmp_path: Path) -> None:
    stores.keys.open()
    stores.close()
    (tmp_path / "keys" / "evidence.key").unlink()
    with Ledger.open(tmp_path / "log", keys=tmp_path / "keys", origin="t") as ledger:
        with pytest.raises(EvidenceError, match="is missing but"):
            finish_interrupted(ledger, stores, keeps=True)
        (told,) = finish_interrupted(ledger, stores, keeps=False)
        assert told.startswith("warning: The key file")


async def test_what_expired_goes_by_itself_but_for_holds(tmp_path: Path) -> None:
    now = [DAY * DAY_US]
    where = (tmp_path / "log", tmp_path / "keys")
    stores = stores_in(*where, b"t" * 32, clock=lambda: now[0] / 1e6)
    with Ledger.open(where[0], keys=where[1], origin="t") as ledger:
        assert expire(ledger, stores) == ""
        assert not (tmp_path / "keys" / "dek.db").exists()
        keeper = Evidence(replace(BOTH, retention=Retention("own", 3)), stores)
        keeper.open()
        held = Owner(stores.subject_c("held"), "")
        for owner in (OWNER, held):
            kept = await keeper.request("call", owner, b"x", "text/plain", 0)
            ledger.append("request", kept.fields()).result(10)
        await keeper.close()
        place = {"do": "place", "id": "h", "reason": "r", "operator": "o", "subject": "held"}
        done("hold", ledger, stores, place)
        now[0] += 4 * DAY_US - 1
        assert expire(ledger, stores) == ""
        now[0] += 1
        assert expire(ledger, stores) == "erased 1 key(s) of expired evidence; record 4"
        assert expire(ledger, stores) == ""
        (left,) = stores.keys.all()
        assert left.subject_c == held.subject_c
        (record,) = (record for record in ledger.records(3) if record["type"] == "erase")
        assert record["ext"]["operator"] == "sphragis"
        assert record["ext"]["records"] == [1]
        stores.close()


async def test_a_day_on_which_erasing_fails_is_told_without_a_trace(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> str:
        raise ValueError("a value")

    monkeypatch.setattr(expiring, "expire", broken)
    told: asyncio.Queue[str] = asyncio.Queue()
    with Ledger.open(tmp_path / "log", keys=tmp_path / "keys", origin="t") as ledger:
        running = asyncio.ensure_future(expiring.run_expiry(ledger, stores, told.put_nowait))
        said = await asyncio.wait_for(told.get(), 10)
        running.cancel()
    assert said.startswith("warning: expired evidence was not erased")
    assert "a value" not in said


def test_a_hold_that_is_over_already_is_refused(stores: Stores, tmp_path: Path) -> None:
    place = {"do": "place", "id": "h", "reason": "r", "operator": "o", "all": True}
    with Ledger.open(tmp_path / "log", keys=tmp_path / "keys", origin="t") as ledger:
        for until in ("2024-10-04", "1970-01-01"):  # the clock says 2024-10-04
            with pytest.raises(EvidenceRefused, match="later date"):
                done("hold", ledger, stores, {**place, "until": until})
        assert ledger.size == 1
        assert done("hold", ledger, stores, {**place, "until": "2024-10-05"})["seq"] == 1
    stores.close()


async def test_what_needs_a_person_s_key_is_told_and_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPHRAGIS_EVIDENCE_KEY", "A" * 43 + "=")
    now = [DAY * DAY_US]
    where = (tmp_path / "log", tmp_path / "keys")
    stores = stores_in(*where, b"t" * 32, clock=lambda: now[0] / 1e6)
    with Ledger.open(where[0], keys=where[1], origin="t") as ledger:
        keeper = Evidence(replace(BOTH, retention=Retention("own", 3)), stores)
        keeper.open()
        await keeper.request("call", OWNER, b"x", "text/plain", 0)
        await keeper.close()
        now[0] += 9 * DAY_US
        assert "--new-key-file" in expire(ledger, stores)
        assert len(list(stores.keys.all())) == 1
        ask = {"basis": "b", "operator": "o", "request": "R", "expired": True}
        for file in ({}, {"new_key_file": str(tmp_path / "no" / "where" / "\udcff" / "key")}):
            with pytest.raises(EvidenceRefused):
                done("erase", ledger, stores, {**ask, **file})
            assert list(stores.keys.unfinished()) == []
        stores.close()


async def test_an_erasure_that_lacks_a_key_stops_no_start_and_can_be_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPHRAGIS_EVIDENCE_KEY", "A" * 43 + "=")
    stores = stores_in(tmp_path / "log", tmp_path / "keys", b"t" * 32)
    with Ledger.open(tmp_path / "log", keys=tmp_path / "keys", origin="t") as ledger:
        keeper = Evidence(BOTH, stores)
        keeper.open()
        owner = Owner(stores.subject_c("jane"), "")
        kept = await keeper.request("call", owner, b"x", "text/plain", 0)
        ledger.append("request", kept.fields()).result(10)
        await keeper.close()
        new = tmp_path / "new.key"
        ask = {"basis": "b", "operator": "o", "request": "R", "subject": "jane"}

        def cut_off(step: str) -> None:
            if step == "planned":
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            erase(ledger, stores, {**ask, "new_key_file": str(new)}, progress=cut_off)
        new.unlink()
        new.mkdir()  # in the way of the key
        assert finish_interrupted(ledger, stores, keeps=True) == []
        other = str(tmp_path / "other.key")
        assert done("erase", ledger, stores, {**ask, "new_key_file": other})["keys"] == 1
        assert list(stores.keys.all()) == []
        stores.close()


def test_the_same_request_for_something_else_is_refused(stores: Stores, tmp_path: Path) -> None:
    ask = {"basis": "b", "operator": "o", "request": "R"}
    with Ledger.open(tmp_path / "log", keys=tmp_path / "keys", origin="t") as ledger:
        first = done("erase", ledger, stores, {**ask, "subject": "jane"})
        assert (first["keys"], first["already"]) == (0, False)
        again = done("erase", ledger, stores, {**ask, "subject": "jane"})
        assert (again["seqs"], again["already"]) == (first["seqs"], True)
        with pytest.raises(EvidenceRefused, match="give this one another id") as wrong:
            done("erase", ledger, stores, {**ask, "subject": "john"})
        assert "john" not in str(wrong.value)
        with pytest.raises(EvidenceRefused, match="Name what to erase"):
            done("erase", ledger, stores, ask)
        with pytest.raises(EvidenceRefused, match="--basis is missing"):
            done("erase", ledger, stores, {**ask, "subject": "jane", "basis": ""})
        with pytest.raises(EvidenceRefused, match="No evidence is kept for record 0"):
            done("evidence-show", ledger, stores, {"seq": 0, "operator": "o"})
        kinds = [record["type"] for record in ledger.records()]
        assert kinds.count("erase") == 1
        assert "export" not in kinds
        assert b"jane" not in b"".join(
            path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()
        )
    stores.close()
