"""Settings for every test."""

import os
import tempfile
from pathlib import Path

from hypothesis import settings

# No deadline: cores may be slow and shared. In CI the examples are the same every time, so a failure can be repeated.
settings.register_profile("rooflab", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("rooflab")

# What a test saves never lands among the user's own scenarios.
OWN = tempfile.TemporaryDirectory(prefix="rooflab-tests-")
os.environ["ROOFLAB_STORE"] = str(Path(OWN.name) / "scenarios.sqlite3")


def pytest_terminal_summary(terminalreporter):
    """What passed only when it was tried again (tests/browser) is told, with why it failed: each is a fault to be found."""
    for report in terminalreporter.getreports("passed"):
        for name, why in report.user_properties:
            if name == "failed once with" and report.when == "call":
                terminalreporter.section(f"passed when tried again: {report.nodeid}")
                terminalreporter.write_line(why)
