"""The browser that pages are opened in."""

from browsing import browser  # noqa: F401
