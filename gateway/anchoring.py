"""What the settings say about anchors, as the anchors' own configuration.

Invariant: a setting that cannot be used stops the start (`settings` checks each when it is read),
while a machine on which the ledgers cannot find each other only costs a warning. Called by
`gateway.app` and by the verbs in `gateway.verbs.witnessing`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from gateway.logs import say
from gateway.settings import Settings
from shared.anchors.config import AnchorConfig
from shared.anchors.neighbors import neighbors_dir
from shared.anchors.schedule import AnchorStatus
from shared.ledger.storage import reason
from shared.paths import UnsafeDirectory

if TYPE_CHECKING:
    from pathlib import Path

    from shared.anchors.client import WitnessTarget
    from shared.anchors.copies import Copy
    from shared.anchors.tsa import Authority


def anchor_config(settings: Settings) -> AnchorConfig:
    """Return the ways out that the settings ask for."""
    return AnchorConfig(
        witnesses=tuple(_witnesses(settings)),
        authority=authority_of(settings),
        ots=settings.ots,
        calendars=tuple(settings.ots_calendars),
        copies=tuple(_copies(settings)),
        neighbors=_neighbors() if settings.neighbors else None,
        head_seconds=settings.head_seconds,
    )


class AnchorMetrics(Collector):
    """How the ways out fare, for `/metrics`."""

    def __init__(self, status: AnchorStatus) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges."""
        size = GaugeMetricFamily(
            "sphragis_anchor_records",
            "Records under the newest head that left the machine this way.",
            labels=("kind", "name"),
        )
        failures = GaugeMetricFamily(
            "sphragis_anchor_failures",
            "How often in a row this way out has failed.",
            labels=("kind", "name"),
        )
        for channel in self._status.channels:
            if channel.kind != "neighbor":
                size.add_metric((channel.kind, channel.name), channel.size)
            failures.add_metric((channel.kind, channel.name), channel.failures)
        yield size
        yield failures


def authority_of(settings: Settings) -> Authority | None:
    """Return the time-stamping authority of the settings, if they name one."""
    if not settings.tsa_url and not settings.tsa_command:
        return None
    from shared.anchors.tsa import Authority

    return Authority(settings.tsa_url or "", tuple(settings.tsa_command), settings.tsa_ca_file)


def _witnesses(settings: Settings) -> list[WitnessTarget]:
    if not settings.witnesses:
        return []
    from shared.anchors.client import parse_target

    return [parse_target(text) for text in settings.witnesses]


def _copies(settings: Settings) -> list[Copy]:
    if not (
        settings.head_command
        or settings.head_file
        or settings.head_note_file
        or settings.head_syslog
    ):
        return []
    from shared.anchors.copies import CommandCopy, FileCopy, NoteCopy, parse_syslog

    found: list[Copy] = []
    if settings.head_command:
        found.append(CommandCopy(tuple(settings.head_command)))
    if settings.head_file is not None:
        found.append(FileCopy(settings.head_file))
    if settings.head_note_file is not None:
        found.append(NoteCopy(settings.head_note_file))
    if settings.head_syslog is not None:
        found.append(parse_syslog(settings.head_syslog))
    return found


def _neighbors() -> Path | None:
    try:
        return neighbors_dir()
    except UnsafeDirectory as wrong:
        say(f"warning: the ledgers of this machine are not recorded here: {wrong}")
    except OSError as wrong:
        say(
            "warning: the ledgers of this machine are not recorded here, because their directory "
            f"cannot be used ({reason(wrong)}); set XDG_STATE_HOME, or neighbors to false."
        )
    return None
