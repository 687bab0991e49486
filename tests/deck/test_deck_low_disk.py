"""A deck on a nearly full disk starts, hands nothing out and says why, and goes on with room."""

from __future__ import annotations

from pathlib import Path

from deck_harness import DeckRig, agent_role

from shared.ledger import verify_path

#: What the deck's process imports first: its disk has 8 KiB while a file is there.
SMALL_DISK = """
import os
_real = os.statvfs
def _statvfs(path):
    found = _real(path)
    if not os.path.exists({flag!r}):
        return found
    fields = list(found)
    fields[3] = fields[4] = 8192 // found.f_frsize
    return os.statvfs_result(fields)
os.statvfs = _statvfs
"""


def test_a_deck_whose_disk_is_low_starts_and_refuses_work_until_there_is_room(
    tmp_path: Path,
) -> None:
    flag, folder = tmp_path / "low", tmp_path / "first"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(SMALL_DISK.format(flag=str(flag)))
    rig = DeckRig(tmp_path)
    try:
        rig.env["PYTHONPATH"] = str(folder)
        rig.env["CHORAGOS_AUDIT_RESERVE_MIB"] = "1"
        rig.team(agent_role("orchestrator"), agent_role("coder", "report"))
        flag.touch()
        rig.serve()
        refused = rig.cli("delegate", "--to", "coder", "--task", "x")
        assert refused.returncode == 1
        assert "nearly full" in refused.stderr
        assert "nearly full" in rig.status()["journal"]["failure"]
        assert rig.status()["tasks"] == []
        flag.unlink()
        rig.wait(lambda: rig.status()["journal"]["failure"] is None)
        assert rig.cli("delegate", "--to", "coder", "--task", "x").returncode == 0
        rig.wait_task("T1", "reported")
        assert rig.cli("kill").returncode == 0
    finally:
        rig.close()
    assert verify_path(rig.state_dir / "ledger").exit_code == 0
