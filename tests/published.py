"""The published configurations and their true counts: data/truth.csv with the config file of each row."""

import csv
import json
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
CATALOG = ROOT / "src" / "rooflab" / "catalog" / "models"
CONFIGS = ROOT / "tests" / "configs"


def rows() -> list[dict[str, str]]:
    """Every row of the truth table."""
    with (ROOT / "data" / "truth.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def catalog_index() -> dict[str, dict]:
    """The index of the catalog's models."""
    return tomllib.loads((CATALOG / "index.toml").read_text(encoding="utf-8"))


def paths() -> dict[str, Path]:
    """Config file of every row of the truth table: the catalog's, else a copy beside the tests."""
    named = {
        entry["id"].replace("/", "__", 1) + ".json": CATALOG / f"{name}.json" for name, entry in catalog_index().items()
    }
    return {row["file"]: named.get(row["file"], CONFIGS / row["file"]) for row in rows()}


def config(file: str) -> dict:
    """The parsed config of one row."""
    return json.loads(paths()[file].read_text(encoding="utf-8"))
