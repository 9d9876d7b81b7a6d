"""The command line: one file per command, put together in `app`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line. Bad input ends with one sentence and exit code 2, Ctrl-C with one line and 130."""
    from gradtd.cli.language import spoken
    from gradtd.core.checks import InputError

    try:
        from gradtd.cli.app import app

        app(prog_name="gradtd")
    except InputError as error:
        _end(spoken(str(error)), 2)
    except OSError as error:
        _end(f"{error.filename or 'a file'}: {error.strerror}.", 2)
    except KeyboardInterrupt:  # while the program is being loaded; later on the commands see it
        _end(STOPPED, 130)


def _end(sentence: str, code: int) -> None:
    print(f"gradtd: {sentence}", file=sys.stderr)
    raise SystemExit(code) from None


STOPPED = "stopped by Ctrl-C."
