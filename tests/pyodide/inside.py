"""What runs inside Pyodide: import the whole core, answer the asks, hand both back as JSON.

Pyodide has the standard library and the msgspec that was unpacked into it; an import of anything else fails here.
"""

import importlib
import json
import pkgutil
import sys
import traceback

OUTER = ("cli", "web", "measure")  # never loaded in a browser


def core_modules(package):
    names = [module.name for module in pkgutil.walk_packages(package.__path__, "rooflab.")]
    return [name for name in names if name.split(".")[1] not in OUTER and not name.endswith(".__main__")]


def failures_to_import():
    failed = {}
    for name in core_modules(importlib.import_module("rooflab")):
        try:
            importlib.import_module(name)
        except Exception:
            failed[name] = traceback.format_exc(limit=-3)
    return failed


def main(asks):
    failed = failures_to_import()
    reports = []
    if not failed and asks:
        from rooflab.api import answer

        reports = [answer(ask) for ask in asks]
    modules = sorted(name for name in sys.modules if name.startswith("rooflab"))
    return json.dumps({"python": sys.version, "modules": modules, "failed": failed, "reports": reports})
