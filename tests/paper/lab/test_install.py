"""`make browser` on machines that this one is not: its script among commands that only write down what is asked."""

import os
import shutil
import subprocess

import pytest

from paper.lab.both import HERE

SCRIPT = HERE / "install.sh"
NEEDED = ("sh", "dirname", "id", "env", "cat", "echo")


@pytest.fixture
def machine(tmp_path):
    """Run the script where only these commands are; what it asked of them, what it said, and how it ended."""

    def run(*commands, fails=(), user=0):
        folder, asked = tmp_path / "bin", tmp_path / "asked"
        folder.mkdir()
        for name in NEEDED:
            (folder / name).symlink_to(shutil.which(name))
        for name in (*commands, "python"):
            body = f'#!/bin/sh\necho "{name} $*" >> {asked}\n'
            body += 'shift\nexec "$@"\n' if name == "sudo" else ""
            broken = "|".join(f"*'{text}'*" for text in fails) or "-"
            body += f'case "{name} $*" in {broken}) exit 1;; esac\n'
            (folder / name).write_text(body)
            (folder / name).chmod(0o755)
        (folder / "id").unlink()
        (folder / "id").write_text(f"#!/bin/sh\necho {user}\n")
        (folder / "id").chmod(0o755)
        done = subprocess.run(
            [shutil.which("sh"), str(SCRIPT), str(folder / "python")],
            env={"PATH": str(folder)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        return (asked.read_text().splitlines() if asked.exists() else []), done

    return run


THERE = ("chromium", "chromedriver", "node")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="a script for sh")]


def test_with_apt_and_nothing_else_everything_is_asked_for_and_npm_is_not(machine):
    asked, done = machine("apt-get")
    assert done.returncode == 0, done.stderr
    assert asked[:2] == [
        "apt-get update -qq",
        "apt-get install -y -qq --no-install-recommends chromium chromium-driver nodejs",
    ]
    assert [line.split()[:4] for line in asked[2:]] == 2 * [["python", "-m", "pip", "install"]]
    assert "npm" not in SCRIPT.read_text()


def test_what_is_there_is_left_as_it_is(machine):
    asked, done = machine(*THERE)
    assert done.returncode == 0, done.stderr
    assert all(line.startswith("python -m pip install") for line in asked)


def test_only_what_is_missing_is_installed_and_as_root(machine):
    asked, done = machine("chromium", "chromedriver", "apt-get", "sudo", user=1000)
    assert done.returncode == 0, done.stderr
    assert "apt-get install -y -qq --no-install-recommends nodejs" in asked
    assert asked[0] == "sudo -n apt-get update -qq"


def test_an_old_list_of_packages_will_do(machine):
    asked, done = machine("apt-get", fails=("apt-get update",))
    assert done.returncode == 0
    assert "could not be refreshed" in done.stderr
    assert any("apt-get install" in line for line in asked)


@pytest.mark.parametrize(
    ("commands", "more", "said"),
    [
        ((), {}, "lacks chromium chromium-driver nodejs and has no apt-get"),
        (("apt-get",), {"user": 1000}, "needs root to install chromium chromium-driver nodejs, and there is no sudo"),
        (("apt-get",), {"fails": ("apt-get install",)}, "apt-get could not install chromium"),
        (THERE, {"fails": ("requirements.txt",)}, "pip could not install what"),
        (THERE, {"fails": ("axe",)}, "pip could not install axe-core"),
    ],
)
def test_where_nothing_can_be_installed_it_says_so(machine, commands, more, said):
    _, done = machine(*commands, **more)
    assert done.returncode != 0
    assert said in done.stderr
    assert "will be skipped" in done.stderr
