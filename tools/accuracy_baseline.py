"""Write tests/accuracy.json anew: the errors on held-out shapes that the accuracy gate compares with.

Run it after a change that is meant to move accuracy, and read the difference before committing it.
"""

import json
from pathlib import Path

from rooflab.measure import compare

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    found = compare.operators_errors(ROOT / "data" / "operators", held=True)["operators"]
    rows = {
        "/".join(row[name] for name in ("family", "system", "backend", "dtype")): {
            "n": row["predicted"],
            "median": round(row["median"], 4),
            "p90": round(row["p90"], 4),
            "coverage": round(row["coverage"], 3),
        }
        for row in found
    }
    (ROOT / "tests" / "accuracy.json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
