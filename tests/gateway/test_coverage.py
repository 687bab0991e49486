"""The coverage matrix: it holds on our gateway, and it would tell if it did not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from ports import free_port

from gateway import wire
from gateway.coverage.canaries import fresh, leaked
from gateway.coverage.matrix import (
    ENCODINGS,
    Outcome,
    applies,
    clean,
    planted,
    positions,
    samples,
)
from gateway.coverage.run import run_matrix
from gateway.coverage.sample import MARK, Sample
from gateway.errors import GatewayError
from gateway.settings import load_settings


def coverage(tmp_path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("SPHRAGIS_")}
    return subprocess.run(
        [sys.executable, "-m", "gateway.cli", "coverage", *arguments],
        env=environment | {"SPHRAGIS_HOME": str(tmp_path / "home"), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )


def test_the_whole_matrix_holds(tmp_path: Path) -> None:
    ran = coverage(tmp_path, "--json")
    assert ran.returncode == 0, ran.stdout[-3000:] + ran.stderr
    report = json.loads(ran.stdout)
    assert report["positions"] >= 200
    assert report["bad"] == 0
    outcomes = {cell["outcome"] for cell in report["cells"]}
    assert outcomes == {"redacted", "refused"}
    tested = {cell["format"] for cell in report["cells"]}
    assert tested == set(wire.all_formats())
    refused = [
        cell
        for cell in report["cells"]
        if cell["outcome"] == "refused"
        and not cell["position"].startswith(("path", "query", "header"))
        # The body to count must be a document; some encodings make text of it.
        and cell["position"] != "input.invokeModel.body base64"
    ]
    assert refused == []


def test_the_routes_are_listed(tmp_path: Path) -> None:
    ran = coverage(tmp_path, "--routes")
    assert ran.returncode == 0
    assert "/v1/messages" in ran.stdout


SAMPLE = Sample(
    wire="x",
    path=f"/v1/{MARK}?a={MARK}",
    headers={"x-app": MARK},
    body={"text": MARK, MARK: '{"inner": "%s"}' % MARK, "b": ["dGhpcyBpcyDin6ptYXJr4p+rIQ=="]},  # noqa: UP031
)


def test_every_mark_is_a_position_and_only_that_place_changes() -> None:
    places = positions(SAMPLE)
    assert [position.place for position in places] == [
        "path", "query", "header x-app", "text", "* key", "*", "b[0] base64",
    ]  # fmt: skip
    plain = clean(SAMPLE)
    assert MARK.encode() not in plain.body + plain.path.encode()
    for position in places:
        request = planted([position], "plain")
        sent = request.body + f"{request.path} {request.headers}".encode()
        assert leaked(request.values, sent)
        assert not leaked(request.values, plain.body)
        assert sum(leaked((v,), sent) for v in request.values) == len(request.values)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_each_encoding_writes_the_same_value_in_another_way(encoding: str) -> None:
    position = positions(SAMPLE)[3]
    assert applies(position, encoding)
    request = planted([position], encoding)
    assert request.values
    if encoding == "plain":
        assert leaked(request.values, request.body)


def test_a_value_is_found_in_every_form_it_could_leave_in() -> None:
    value = fresh().values[0]
    for form in (value.upper(), json.dumps({"a": value}), value.encode().hex()):
        assert leaked((value,), f"x{form}y".encode())
    assert not leaked((value,), b"something else")


async def test_a_gateway_that_leaks_is_told_on(tmp_path: Path) -> None:
    """Forwards everything as it came: the matrix must not be satisfied."""
    settings, _ = load_settings(None, home=str(tmp_path))
    provider = ""

    async def leak(request: web.Request) -> web.Response:
        path = request.raw_path.removeprefix("/agent/coverage")
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                request.method, provider + path, headers=request.headers, data=await request.read()
            ) as answer,
        ):
            return web.Response(status=answer.status, body=await answer.read())

    app = web.Application(client_max_size=1 << 30)
    app.router.add_route("*", "/{path:.*}", leak)
    runner = web.AppRunner(app, auto_decompress=False)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    own = runner.addresses[0]
    listen = f"127.0.0.1:{free_port()}"
    provider = f"http://{listen}"
    try:
        report = await run_matrix(f"http://127.0.0.1:{own[1]}", listen, settings, samples()[:2])
    finally:
        await runner.cleanup()
    plain = [cell for cell in report.cells if cell.encoding == "plain"]
    assert plain
    assert all(cell.outcome is Outcome.LEAKED for cell in plain)


async def test_a_gateway_that_forwards_elsewhere_is_told_how_to_be_tested(tmp_path: Path) -> None:
    settings, _ = load_settings(None, home=str(tmp_path))
    with pytest.raises(GatewayError, match="cannot be reached"):
        await run_matrix("http://127.0.0.1:1", "127.0.0.1:0", settings)


@pytest.mark.parametrize("url", ["ftp://x", "x", "", "http://", "http://x:99999"])
async def test_what_is_no_address_of_a_gateway_is_told(tmp_path: Path, url: str) -> None:
    settings, _ = load_settings(None, home=str(tmp_path))
    with pytest.raises(GatewayError, match="is no address of a gateway"):
        await run_matrix(url, "127.0.0.1:0", settings)


def test_every_format_has_a_sample() -> None:
    assert {sample.wire for sample in samples()} == set(wire.all_formats())
