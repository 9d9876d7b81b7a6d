"""The lab: one self-contained page on which a slider moves a learning curve, with the kernel in the browser.

`write_lab` writes the page; the JavaScript it holds lies readable in ``assets``. See docs/lab.md.
"""

from gradtd.paper.lab.page import lab_page, write_lab

__all__ = ["lab_page", "write_lab"]
