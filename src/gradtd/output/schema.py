"""The shape of an evaluation as JSON: `Evaluation.to_dict`, and what `gradtd evaluate --json` prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FORMAT = 1
"""Version of that shape. Any release may add a field; one that goes or changes its meaning gets a new number."""


def evaluation_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one evaluation.

    >>> evaluation_schema()["$id"]
    'gradtd-evaluation-1'
    """
    path = Path(__file__).parent / "schemas" / f"evaluation-{FORMAT}.json"
    return dict(json.loads(path.read_text()))
