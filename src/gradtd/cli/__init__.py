"""The command line: one file per command, put together in `app`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line.

    Exit codes: 0, and 3 where ``--require`` asks for a better verdict; 2 for bad input, with one sentence; 130 for
    Ctrl-C and 143 for SIGTERM, with one line.
    """
    try:
        _main()
    except KeyboardInterrupt:  # while the program is being loaded; later on the commands see it
        print("\ngradtd: stopped by Ctrl-C; nothing was kept, and the same command begins anew.", file=sys.stderr)
        raise SystemExit(130) from None


def _main() -> None:
    from gradtd.cli.messages import typed
    from gradtd.cli.signals import ANEW, Stopped, Terminated, end, listen
    from gradtd.core.checks import InputError

    try:
        listen()
        from gradtd.cli.app import app

        app(prog_name="gradtd")
    except InputError as error:
        end(typed(str(error)), 2)
    except OSError as error:
        end(f"{error.filename or 'a file'}: {error.strerror}.", 2)
    except MemoryError:
        end("this takes more memory than there is: give it less data, fewer features or fewer threads.", 2)
    except Terminated as cause:
        stopped = Stopped(cause, ANEW)
        end(str(stopped), stopped.code)
