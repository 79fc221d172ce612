"""The page as a folder of static files: the engine runs in the reader's browser, and nothing is fetched from elsewhere."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path

import rooflab
from rooflab.units import InputError
from rooflab.web.built import index, page

LEAVE = ("cli", "web", "measure", "notebook")
"""Parts of the package that a browser has no use for."""


def site(out_dir: str | Path) -> Path:
    """Write the page into a folder that any plain web server can hand out. Returns the folder.

    Raises InputError where the folder holds something else.
    """
    out = Path(out_dir)
    if out.is_file() or (out.is_dir() and any(out.iterdir()) and not (out / "py/rooflab.zip").is_file()):
        raise InputError(f"{out} exists and holds no page of RoofLab; give a new folder or an empty one")
    built = page()
    try:
        _forget_older(out / "assets", built / "assets")
        shutil.copytree(built, out, dirs_exist_ok=True, ignore=shutil.ignore_patterns(".stamp"))
        (out / "py").mkdir(exist_ok=True)
        archive(out / "py/rooflab.zip")
        (out / "index.html").write_text(index("browser"), encoding="utf-8")
    except OSError as problem:
        why = problem.strerror or "some files could not be copied"
        raise InputError(f"{out} cannot be written: {why}; name another folder") from None
    return out


def _forget_older(assets: Path, built: Path) -> None:
    """Remove script and style of an earlier page, whose names no page asks for any more."""
    kept = {path.name for path in built.iterdir()}
    for path in assets.glob("*-*.*"):
        if path.suffix in (".js", ".css", ".woff2") and path.name not in kept:
            path.unlink()


def archive(target: Path) -> None:
    """The engine's own modules and catalog, in a zip that Pyodide unpacks."""
    root = Path(rooflab.__file__).resolve().parent
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as found:
        for path in sorted(root.rglob("*")):
            inside = path.relative_to(root)
            if path.is_dir() or inside.parts[0] in LEAVE or "__pycache__" in inside.parts:
                continue
            entry = zipfile.ZipInfo(f"rooflab/{inside.as_posix()}")  # the same bytes every time: no date
            entry.compress_type = zipfile.ZIP_DEFLATED
            found.writestr(entry, path.read_bytes())
