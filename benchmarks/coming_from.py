"""Runs their side of docs/coming-from/ in the environment that `benchmarks/peers.py install` makes.

    python benchmarks/coming_from.py

Prints the value, and the interval where there is one, beside gradtd's own and the truth where the page has it.
"""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

PAGES = Path(__file__).parents[1] / "docs" / "coming-from"
PEERS = Path("build/peers/bin/python")
SHOW = "\nprint('value', round(float(value), 4))\nprint('interval', globals().get('interval', 'none'))\n"


def their_code(page: Path) -> str:
    found = re.search(r"```python\n# theirs\n(.*?)```", page.read_text(), re.DOTALL)
    assert found is not None, page
    return found[1]


def main() -> None:
    if not PEERS.exists():
        sys.exit("The peers are not installed: python benchmarks/peers.py install")
    queue = runpy.run_path(str(PAGES / "queue_log.py"))
    print(f"truth of the queue: {queue['truth'](queue['TARGET']):.4f}")
    for page in sorted(PAGES.glob("*.md")):
        if page.stem == "index":
            continue
        code = "import warnings; warnings.simplefilter('ignore')\n" + their_code(page) + SHOW
        made = subprocess.run(
            [str(PEERS.absolute()), "-c", code], cwd=PAGES, capture_output=True, text=True, check=False
        )
        print(f"{page.stem}: {made.stdout.strip() if made.returncode == 0 else made.stderr.strip()[-500:]}")


if __name__ == "__main__":
    main()
