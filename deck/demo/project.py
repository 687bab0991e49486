"""What the demo's team works on: a small repository, its team file and its script.

Owns the texts only: the files of an invented shop's customer records, the `.choragos.toml` of three
roles and the directive lines (`@tool NAME {json}`) by which the offline provider is told what to
answer. Pure: names and values in, texts out. Called by the story and by the end-to-end tests.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from deck.demo.canaries import Canary

#: The model id that roles ask for; `claude-offline` is priced in the team file.
MODEL: Final = "claude-offline-large"
#: USD per million tokens, as the team file states them.
PRICES: Final = {"input": 3.0, "output": 15.0, "cache_read": 0.3, "cache_creation": 3.75}

CUSTOMERS: Final = "data/customers.json"
HANDOVER: Final = "notes/handover.md"
CHANGES: Final = "CHANGES.md"
BRIEF_CONTACTS: Final = "briefs/contacts.md"
BRIEF_REVIEW: Final = "briefs/review.md"
BRIEF_CHANGES: Final = "briefs/changes.md"

ROLES: Final = ("orchestrator", "coder", "reviewer")


def directive(name: str, **arguments: str) -> str:
    """Return the prompt line that makes the offline provider call a tool."""
    return f"@tool {name} {json.dumps(arguments, ensure_ascii=False)}"


def repository() -> dict[str, str]:
    """Return the repository's files, path to text, as they stand before the team begins."""
    return {
        ".gitignore": ".choragos/\n__pycache__/\n",
        "README.md": "# Shop\n\nKeeps the customer records of a small shop and checks them.\n",
        CHANGES: "# Changes\n\n- 1.0: first records\n",
        CUSTOMERS: _customers(email="unknown", phone="unknown"),
        "shop/__init__.py": "",
        "shop/customers.py": _CUSTOMERS_PY,
        "tests/__init__.py": "",
        "tests/test_customers.py": _TEST_PY,
        BRIEF_REVIEW: _review_brief(),
        BRIEF_CHANGES: _changes_brief(),
    }


def contacts(canaries: tuple[Canary, ...]) -> str:
    """Return the records file as the coder is asked to write it."""
    value = {c.name: c.value for c in canaries}
    return _customers(email=value["e-mail"], phone=value["phone"])


def handover(canaries: tuple[Canary, ...]) -> str:
    """Return the note the model is asked to write: it names an e-mail address and a password."""
    value = {c.name: c.value for c in canaries}
    return (
        "# Customer 4711\n\n"
        f"Contact: {value['e-mail']}\n"
        f"The database takes PASSWORD={value['database password']} until the next rotation.\n"
    )


def ticket(canaries: tuple[Canary, ...]) -> str:
    """Return the customer's ticket, the part of every role's prompt that must stay at home."""
    value = {c.name: c.value for c in canaries}
    return "\n".join(
        [
            "Ticket 4711, for the team only:",
            f"Mail: {value['e-mail']}",
            f"Phone: {value['phone']}",
            f"Card: {value['card']}",
            f"IBAN: {value['IBAN']}",
            f"DB_PASSWORD={value['database password']}",
            f"API_KEY={value['API key']}",
        ]
    )


def team_file(*, python: str, sphragis: str, addr: str, canaries: tuple[Canary, ...]) -> str:
    """Return the `.choragos.toml` of the demo's team.

    `python` and `sphragis` are absolute paths; `addr` is the gateway's host:port.
    """
    note = ticket(canaries)
    prompts = {
        "orchestrator": f"You lead a team of two. Delegate; change nothing yourself.\n\n{note}\n\n"
        + _orchestrator_script(canaries),
        "coder": f"You write the code and the records.\n\n{note}",
        "reviewer": f"You check what the coder did.\n\n{note}",
    }
    parts = [
        "# Three roles, each `python -m deck.demo.agent` in a terminal of its own.",
        _table(
            "sphragis",
            {"enabled": True, "addr": addr, "command": sphragis, "fail_closed": True},
        ),
        _table("checkpoints", {"enabled": True, "keep": 20}),
        _table('pricing."claude-offline"', PRICES),
    ]
    for role, prompt in prompts.items():
        fields: dict[str, object] = {
            "name": role,
            "command": python,
            "args": ["-m", "deck.demo.agent"],
            "model": MODEL,
        }
        if role == "orchestrator":
            fields["start"] = True
        parts.append(_table("roles", {**fields, "prompt_template": prompt}, array=True))
    return "\n".join(parts)


def _table(name: str, fields: Mapping[str, object], *, array: bool = False) -> str:
    head = f"[[{name}]]" if array else f"[{name}]"
    lines = [head, *(f"{key} = {_value(value)}" for key, value in fields.items())]
    return "\n".join(lines) + "\n"


def _value(value: object) -> str:
    """Write a TOML value; a JSON string is one, and a text of several lines is made readable."""
    if isinstance(value, str) and "\n" in value:
        return f"'''\n{value}\n'''"
    return json.dumps(value, ensure_ascii=False)


def _orchestrator_script(canaries: tuple[Canary, ...]) -> str:
    return "\n".join(
        [
            directive("write_file", path=BRIEF_CONTACTS, content=_contacts_brief(canaries)),
            _delegate("coder", BRIEF_CONTACTS, "Correct the contact data of customer 4711"),
            "",
            "When a report mentions T1: "
            + _delegate("reviewer", BRIEF_REVIEW, "Review the contact data of customer 4711"),
            "When a report mentions T2: " + _bash(_done("customer 4711 is up to date")),
            "When a report mentions T3: " + _bash(_done("the change is noted")),
        ]
    )


def _contacts_brief(canaries: tuple[Canary, ...]) -> str:
    return "\n".join(
        [
            "# Contact data of customer 4711",
            "",
            f"Correct {CUSTOMERS}, leave a note in {HANDOVER}, run the tests, report.",
            "",
            directive("write_file", path=CUSTOMERS, content=contacts(canaries)),
            directive("write_file", path=HANDOVER, content=handover(canaries)),
            _bash("python3 -m unittest -q"),
            _bash(_report("contact data corrected, tests pass")),
            "",
        ]
    )


def _review_brief() -> str:
    return "\n".join(
        [
            "# Review",
            "",
            _bash("git diff --stat && python3 -m unittest -q"),
            _bash(_report("reviewed, nothing to add")),
            "",
        ]
    )


def _changes_brief() -> str:
    text = "# Changes\n\n- 1.1: contact data of customer 4711\n- 1.0: first records\n"
    return "\n".join(
        [
            "# Note the change",
            "",
            directive("write_file", path=CHANGES, content=text),
            _bash(_report("the change is noted")),
            "",
        ]
    )


def _bash(command: str) -> str:
    return directive("bash", command=command)


def _delegate(role: str, brief: str, task: str) -> str:
    return _bash(f"choragos delegate --to {role} --brief {brief} --task '{task}'")


def _report(text: str) -> str:
    return f'choragos work-done --id "$TASK_ID" --task "$TASK_ID: {text}"'


def _done(text: str) -> str:
    return f"choragos work-done --done --task '{text}'"


def _customers(*, email: str, phone: str) -> str:
    record = {"4711": {"company": "Harbour Freight", "email": email, "phone": phone}}
    return json.dumps(record, indent=2) + "\n"


_CUSTOMERS_PY = '''"""Reads the customer records and says what is wrong with them."""

import json
import re
from pathlib import Path

RECORDS = Path(__file__).parent.parent / "data" / "customers.json"


def load():
    return json.loads(RECORDS.read_text())


def faults(record):
    """Return what a record lacks, in words."""
    found = []
    if not re.fullmatch(r"[^@\\s]+@[^@\\s]+\\.[a-z]+", record["email"]):
        found.append("no e-mail address")
    if not re.fullmatch(r"\\+[0-9 ]{8,}", record["phone"]):
        found.append("no phone number")
    return found
'''

_TEST_PY = """import unittest

from shop.customers import faults, load


class CustomersTest(unittest.TestCase):
    def test_every_customer_can_be_reached(self):
        for number, record in load().items():
            self.assertEqual(faults(record), [], number)
"""
