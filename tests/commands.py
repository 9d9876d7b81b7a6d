"""The command line in this process: what a process of its own would print and return, without the time to start one."""

from __future__ import annotations

import sys

import pytest

from gradtd import cli


def refused(monkeypatch, capsys, *arguments):
    """Run a command that must end with exit code 2 and without a traceback; what it wrote to stderr."""
    monkeypatch.setattr("gradtd.cli.signals.listen", lambda: None)
    monkeypatch.setattr(sys, "argv", ["gradtd", *arguments])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert "Traceback" not in said
    return said
