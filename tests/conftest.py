"""Settings for every test."""

import os

from hypothesis import settings

# No deadline: cores may be slow and shared. In CI the examples are the same every time, so a failure can be repeated.
settings.register_profile("rooflab", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("rooflab")
