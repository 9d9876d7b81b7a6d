"""Shows an evaluation as text, plot, page, notebook output or frame."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas
    from rich.console import Group


class Summary(str):
    """Text that notebooks and prompts show without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Presented:
    """The display methods of an `Evaluation`. They import plotting code when called."""

    @property
    def _it(self) -> Any:
        """This object with its full type: `Evaluation` derives from this class."""
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

        Returns the Matplotlib axes.

        Parameters
        ----------
        path
            An image file to write: .png, .svg or .pdf.
        """
        from gradtd.output.evaluation_page import estimates_figure
        from gradtd.output.plots import show_figure

        return show_figure(estimates_figure(self._it), path)

    def page(self, path: str | Path) -> Path:
        """Write one self-contained HTML page: value, verdict, plots, diagnostics.

        Parameters
        ----------
        path
            The file to write; its name ends in ``.html``.
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
