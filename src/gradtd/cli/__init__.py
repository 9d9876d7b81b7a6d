"""The command line: one file for one or two commands, combined in `app`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line.

    Exit codes: 0 for success, 3 if a condition such as ``--require`` is not met, 2 for bad input, 130 for Ctrl-C and
    143 for SIGTERM. Every failure prints one message.
    """
    try:
        _main()
    except KeyboardInterrupt:  # while the program loads; later, the commands handle it
        print("\ngradtd: stopped by Ctrl-C. Nothing was saved; run the command again.", file=sys.stderr)
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
        end("out of memory: use less data, fewer features or fewer threads.", 2)
    except Terminated as cause:
        stopped = Stopped(cause, ANEW)
        end(str(stopped), stopped.code)
