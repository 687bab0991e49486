"""Claude Code, pinned, headless, through the gateway to the offline provider."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from e2e_servers import Server, clean_env

from deck.demo.canaries import demo_canaries
from deck.demo.evidence import TOKEN

pytestmark = pytest.mark.client

CANARIES = demo_canaries()
VALUE = {c.name: c.value for c in CANARIES}
PERSONAL = [c.value for c in CANARIES if not c.secret]
SECRET = [c.value for c in CANARIES if c.secret]
TICKET = (
    f"Customer: {VALUE['e-mail']}, {VALUE['phone']}, card {VALUE['card']}, {VALUE['IBAN']}.\n"
    f"DATABASE_PASSWORD={VALUE['database password']}\n"
    f"PAYMENTS_API_KEY={VALUE['API key']}\n"
)


@dataclass
class Claude:
    program: Path
    home: Path
    server: Server

    @property
    def work(self) -> Path:
        return self.home / "work"

    def ask(self, prompt: str, role: str, *options: str, code: int = 0) -> dict:
        done = subprocess.run(
            [
                self.program,
                "-p",
                "--output-format",
                "json",
                "--permission-mode",
                "acceptEdits",
                prompt,
                *options,
            ],
            cwd=self.work,
            env=clean_env(
                self.home,
                ANTHROPIC_BASE_URL=self.server.url(role),
                ANTHROPIC_API_KEY="offline-key",
                CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
                DISABLE_AUTOUPDATER="1",
                CLAUDE_CODE_MAX_RETRIES="1",
            ),
            stdin=subprocess.DEVNULL,
            check=False,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def agent(claude: Path, client_home: Path, server: Server) -> Claude:
    return Claude(claude, client_home, server)


def test_a_file_claude_writes_holds_the_originals_and_the_provider_saw_none(agent: Claude) -> None:
    path = agent.work / "customer.json"
    content = json.dumps({"email": VALUE["e-mail"], "phone": VALUE["phone"], "note": 'a "b"\n'})
    call = json.dumps({"file_path": str(path), "content": content})
    answer = agent.ask(f"{TICKET}\nPlease save the contact.\n@tool Write {call}\n", "claude-write")
    assert answer["is_error"] is False, answer
    assert answer["num_turns"] == 2
    assert json.loads(path.read_text()) == json.loads(content)
    agent.server.assert_no_leak(CANARIES)
    assert TOKEN.search(agent.server.received_bytes().decode("utf-8", "replace"))
    assert agent.server.verify()["status"] == "ok"


def test_usage_is_counted_for_the_role_as_claude_was_told(agent: Claude) -> None:
    answer = agent.ask(f"Say it again. {VALUE['e-mail']}", "claude-usage")
    assert VALUE["e-mail"] in answer["result"]
    used = agent.server.usage("claude-usage")
    assert used["input"] == answer["usage"]["input_tokens"] > 0
    assert used["output"] == answer["usage"]["output_tokens"] > 0


def test_values_in_project_memory_and_in_files_claude_reads_stay_at_home(agent: Claude) -> None:
    (agent.work / "CLAUDE.md").write_text(f"The team's notes.\n{TICKET}")
    (agent.work / "leads.csv").write_text(f"email,phone\n{VALUE['e-mail']},{VALUE['phone']}\n")
    call = json.dumps({"file_path": str(agent.work / "leads.csv")})
    before = len(agent.server.received())
    answer = agent.ask(f"Look at the leads.\n@tool Read {call}\n", "claude-read")
    assert VALUE["e-mail"] in answer["result"]
    assert VALUE["phone"] in answer["result"]
    sent = b"".join(entry.body for entry in agent.server.received()[before:])
    assert b"The team's notes." in sent, "CLAUDE.md was part of the prompt"
    agent.server.assert_no_leak(CANARIES)


def test_the_burst_that_counts_the_context_is_redacted(agent: Claude) -> None:
    (agent.work / "CLAUDE.md").write_text(f"The team's notes.\n{TICKET}")
    before = len(agent.server.received())
    agent.ask("/context", "claude-context")
    sent = agent.server.received()[before:]
    assert len(sent) > 5
    assert {entry.path.partition("?")[0] for entry in sent} == {"/v1/messages/count_tokens"}
    assert any(b"[EMAIL_" in entry.body for entry in sent)
    agent.server.assert_no_leak(CANARIES)


def test_secrets_do_not_come_back_to_claude_and_personal_data_do(agent: Claude) -> None:
    answer = agent.ask(f"Repeat this word for word:\n{TICKET}", "claude-secrets")
    for value in PERSONAL:
        assert value in answer["result"]
    for value in SECRET:
        assert value not in answer["result"]
    agent.server.assert_no_leak(CANARIES)


def test_a_second_session_of_another_role_does_not_get_the_first_ones_values(
    agent: Claude,
) -> None:
    agent.ask(f"Remember {VALUE['e-mail']}", "claude-owner")
    bodies = b"".join(entry.body for entry in agent.server.received()).decode()
    tokens = {t for t in TOKEN.findall(bodies) if t.startswith("[EMAIL_")}
    assert tokens
    answer = agent.ask("What is " + " ".join(sorted(tokens)) + "?", "claude-stranger")
    assert VALUE["e-mail"] not in answer["result"]
