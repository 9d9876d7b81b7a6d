"""The JSON schema of an evaluation, as in `Evaluation.to_dict` and `gradtd evaluate --json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FORMAT = 1
"""Version of the schema. New fields do not change it; removed or changed fields do."""


def evaluation_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of one evaluation.

    >>> evaluation_schema()["$id"]
    'gradtd-evaluation-1'
    """
    path = Path(__file__).parent / "schemas" / f"evaluation-{FORMAT}.json"
    return dict(json.loads(path.read_text()))
