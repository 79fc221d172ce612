"""Settings for every test."""

import os
import tempfile
from pathlib import Path

from hypothesis import settings

# No deadline: cores may be slow and shared. In CI the examples are the same every time, so a failure can be repeated.
settings.register_profile("rooflab", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("rooflab")

# What a test saves never lands among the user's own scenarios.
os.environ["ROOFLAB_STORE"] = str(Path(tempfile.gettempdir()) / f"rooflab-tests-{os.getpid()}" / "scenarios.sqlite3")
