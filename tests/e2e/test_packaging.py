"""The wheel by itself: what a stranger gets from `pip install choragos`."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from shared import __version__

ROOT = Path(__file__).resolve().parents[2]


def run(*argv: object, cwd: Path) -> str:
    done = subprocess.run(
        [str(part) for part in argv],
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "HOME": str(cwd)},
        check=False,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> Path:
    """Built from the working tree by the locked build backend, without the network."""
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", out, cwd=ROOT)
    (built,) = out.glob("*.whl")
    return built


def test_the_wheel_holds_the_packages_the_policies_and_every_asset(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        names = set(packed.namelist())
    assert f"choragos-{__version__}-py3-none-any.whl" == wheel.name
    wanted = {f"gateway/policies/{path.name}" for path in (ROOT / "policies").glob("*.toml")}
    assert wanted
    for package in ("gateway", "deck", "shared"):
        wanted |= {
            str(path.relative_to(ROOT))
            for path in (ROOT / package).rglob("*")
            if path.is_file() and "__pycache__" not in path.parts
        }
    assert wanted - names == set()
    assert any(name.startswith("gateway/console/") and not name.endswith(".py") for name in names)
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert not any(name.startswith(("tests/", "deploy/")) for name in names)


def test_both_commands_run_from_the_installed_wheel(wheel: Path, tmp_path: Path) -> None:
    place = tmp_path / "venv"
    venv.create(place, with_pip=False, symlinks=True)
    python = place / "bin" / "python"
    # The locked packages are there already; only ours is taken from the wheel.
    site = Path(
        run(python, "-c", "import site; print(site.getsitepackages()[0])", cwd=tmp_path).strip()
    )
    run(
        *(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps"),
        *("--no-index", "--disable-pip-version-check", wheel),
        cwd=tmp_path,
    )
    (site / "zz_locked.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for command in ("choragos", "sphragis"):
        assert __version__ in run(place / "bin" / command, "--version", cwd=tmp_path)
    where = run(
        python,
        "-c",
        "import deck, gateway, shared; print(deck.__file__, gateway.__file__, shared.__file__)",
        cwd=tmp_path,
    )
    assert all(part.startswith(str(place)) for part in where.split()), where
