"""The generator of docs/requirements.md finds the ids that tests name.

Ids below are put together, not written out, so that this file is not taken for a test of them.
"""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
spec = importlib.util.spec_from_file_location("requirements_tool", ROOT / "tools/requirements.py")
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)

KNOWN = ["A" + "-012", "C" + "-061", "C" + "-062", "C" + "-068", "C" + "-069", "E" + "-02"]


def named(text: str) -> list[str]:
    return [name for _, name in tool.mentions(text, KNOWN)]


def test_single_ids_in_prose_and_in_names():
    assert named("A" + "-012: time is the larger of two") == KNOWN[:1]
    assert named("def test_A" + "_012_time(): ...") == KNOWN[:1]
    assert named("E" + "-02, not E" + "-021") == ["E" + "-02"]
    assert named("an A" + "100, an RTX-A" + "-0123, A" + "-999") == []


def test_ranges_are_spelt_out_with_the_ids_that_exist():
    for dots in ("..", "…", "–", " .. "):
        assert named("C" + "-061" + dots + "C" + "-068") == KNOWN[1:4]
    assert named("C" + "-061..068") == KNOWN[1:4]


def test_the_function_around_a_mention_is_found():
    text = "# why\n@mark\ndef test_one():\n    pass\n\n\nclass TestMore:\n    def test_two(self):\n        pass\n"
    spans = {name: (span[0], span[-1]) for span, name in tool.functions(text)}
    assert spans == {"test_one": (1, 4), "test_two": (8, 9)}


def test_every_requirement_is_read():
    rows = tool.requirements()
    assert len(rows) == 396
    assert {name[0] for name in rows} == set(tool.PARTS)
    assert all(text for _, _, text in rows.values())
