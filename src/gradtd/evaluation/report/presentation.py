"""How an evaluation is shown: as text, as a picture, on a page, in a notebook, as a frame."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    from rich.console import Group


class Summary(str):
    """Text that a notebook and a prompt show as it is."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Presented:
    """The methods of an `Evaluation` that show it. They load what draws and writes when they are called."""

    @property
    def _it(self) -> Any:
        """This, as the `Evaluation` that it is: that class is built on this one."""
        return self

    def summary(self) -> Summary:
        """Value, interval, verdict and reasons, the behaviour's own value and the gain over it, and the evidence.

        ``print(evaluation)`` prints it.
        """
        from gradtd.output.evaluation_text import summary_lines

        return Summary("\n".join(summary_lines(self._it)))

    def __str__(self) -> str:
        return str(self.summary())

    def plot(self, path: str | Path | None = None) -> Any:
        """Draw the value with its interval next to those of the other methods; a notebook shows it at once.

        Returns the axes of Matplotlib, to change or to save.

        Parameters
        ----------
        path
            A picture file to write, too: .png, .svg or .pdf.
        """
        from gradtd.output.evaluation_page import estimates_figure
        from gradtd.output.plots import show_figure

        return show_figure(estimates_figure(self._it), path)

    def page(self, path: str | Path) -> Path:
        """Write one page with everything: value, verdict, pictures, diagnostics. It needs no other file.

        Parameters
        ----------
        path
            Where to; the name ends in ``.html``.
        """
        from gradtd.output.evaluation_page import write_page

        return write_page({self._it.target: self._it}, path)

    def to_frame(self) -> pandas.DataFrame:
        """The estimates as a pandas frame, one row per method: value, low, high, error, note. Needs pandas."""
        from gradtd.output.evaluation_text import as_frame

        return as_frame(self._it)

    def __rich__(self) -> Group:
        from gradtd.output.evaluation_text import on_terminal

        return on_terminal(self._it)

    def _repr_html_(self) -> str:
        from gradtd.output.evaluation_text import in_notebook

        return in_notebook(self._it)
