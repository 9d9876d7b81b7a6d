"""The command line: one file per command, put together in `app`."""

from __future__ import annotations


def main() -> None:
    """Run the command line.

    Bad input ends with one sentence and exit code 2. Ctrl-C ends with one line and 130, SIGTERM with one line and 143.
    """
    from gradtd.cli.messages import typed
    from gradtd.cli.signals import ANEW, Stopped, end, listen
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
    except KeyboardInterrupt as cause:  # while the program is being loaded; later on the commands see it
        stopped = Stopped(cause, ANEW)
        end(str(stopped), stopped.code)
