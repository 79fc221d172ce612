"""Saved scenarios: one SQLite file for the command line and the page, JSON to pass on (D-130, D-131, D-134, E-23).

Expected values come from what was put in, and from SQLite's own tools; damage is done by hand.
"""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rooflab import store
from rooflab.store import Saved, Store, checked_name, dump, free_name, read
from rooflab.units import InputError

RECORD = Saved(
    name="FP8 weights", ask={"model": "llama-3.1-8b", "on": "h100-sxm", "batch": 4, "switches": {"tiles": False}},
    digest={"tpot": 0.0123, "fits": True}, version="0.1.0", time="2026-01-31T12:00:00Z",
)  # fmt: skip


@pytest.fixture
def kept(tmp_path):
    return Store(tmp_path / "deep/er/scenarios.sqlite3")


def named(name, **more):
    return msgspec.structs.replace(RECORD, name=name, **more)


def test_what_is_saved_comes_back_in_order(kept):
    """D-131: the whole question, the figures, the version and the time."""
    assert kept.all() == []
    assert not kept.path.exists()  # looking makes no file
    kept.save(RECORD)
    kept.save(named("ünï → “quotes” '; DROP TABLE scenarios; --"))
    assert Store(kept.path).all() == [RECORD, named("ünï → “quotes” '; DROP TABLE scenarios; --")]
    assert kept.get("FP8 weights") == RECORD


def test_a_name_is_taken_once(kept):
    """D-130: no collisions; a save says so, an import counts on."""
    kept.save(RECORD)
    with pytest.raises(InputError, match="saved already"):
        kept.save(named("FP8  weights "))
    newer = named("FP8 weights", version="0.2.0")
    kept.save(newer, replace=True)
    assert kept.all() == [newer]
    assert [each.name for each in kept.save_all([RECORD, RECORD])] == ["FP8 weights 2", "FP8 weights 3"]
    with pytest.raises(InputError, match="taken"):
        kept.rename("FP8 weights 2", "FP8 weights 3")
    assert kept.rename("FP8 weights 2", "other").ask == RECORD.ask
    assert [each.name for each in kept.all()] == ["FP8 weights", "other", "FP8 weights 3"]


def test_deleting_is_all_or_nothing(kept):
    kept.save_all([named("a"), named("b"), named("c")])
    with pytest.raises(InputError, match="'nothing' is not saved"):
        kept.delete(["a", "nothing"])
    assert len(kept.all()) == 3
    assert kept.delete(["a", "c", "a"]) == ["a", "c"]
    assert [each.name for each in kept.all()] == ["b"]
    with pytest.raises(InputError, match=r"'bb' is not saved; .*'b'"):
        kept.get("bb")


@pytest.mark.parametrize("name", ["", "  ", None, 3, "x" * 101, "a\x00b", "a\u202eb", "\ud800", ["a"]])
def test_a_name_is_one_line_of_plain_text(name):
    with pytest.raises(InputError, match="name"):
        checked_name(name)


@given(st.text(min_size=1, max_size=100), st.lists(st.text(max_size=6), max_size=5))
def test_a_free_name_is_free(wanted, taken):
    assert free_name(wanted, taken) not in taken
    assert free_name(wanted, []) == wanted


def test_many_writers_lose_nothing(kept, monkeypatch):
    """Threads of one program and another program, at once."""
    monkeypatch.setattr(store, "PATIENCE", 120.0)  # SQLite keeps no queue, and a disk may be slow
    code = f"""
from rooflab import store
from rooflab.store import Saved, Store
store.PATIENCE = 120.0
for n in range(20):
    Store({str(kept.path)!r}).save(Saved(name=f"other {{n}}", ask={{}}, version="1", time="t"))
"""
    other = subprocess.Popen([sys.executable, "-c", code])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: kept.save(named(f"mine {n}")), range(40)))
    assert other.wait(120) == 0
    assert {each.name for each in kept.all()} == {f"mine {n}" for n in range(40)} | {f"other {n}" for n in range(20)}


def test_a_writer_waits_and_then_says_so(kept, monkeypatch):
    kept.save(RECORD)
    monkeypatch.setattr(store, "PATIENCE", 0.05)
    with sqlite3.connect(kept.path, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(InputError, match="in use by another program"):
            kept.save(named("b"))
        other.execute("ROLLBACK")
    other.close()
    kept.save(named("b"))


# ------------------------------------------------------------------------------------------------ files that are not ours


def alter(path, *statements):
    line = sqlite3.connect(path)
    for statement in statements:
        line.execute(statement)
    line.commit()
    line.close()


@pytest.mark.parametrize("call", [Store.all, lambda kept: kept.save(RECORD), lambda kept: kept.delete(["a"])])
def test_other_files_are_refused_and_left_alone(tmp_path, call):
    text, other, folder = tmp_path / "notes.txt", tmp_path / "other.db", tmp_path / "folder"
    text.write_text("my notes, longer than sixteen bytes")
    alter(other, "CREATE TABLE mine (x)", "INSERT INTO mine VALUES (1)")
    folder.mkdir()
    before = {path: path.read_bytes() for path in (text, other)}
    for path, says in ((text, "holds no saved scenarios"), (other, "another program"), (folder, "is not a file")):
        with pytest.raises(InputError, match=says) as caught:
            call(Store(path))
        assert "\n" not in str(caught.value)
        assert "--store" in str(caught.value)
    assert before == {path: path.read_bytes() for path in (text, other)}


def test_a_newer_file_is_refused_with_both_numbers(kept):
    kept.save(RECORD)
    alter(kept.path, f"PRAGMA user_version = {store.FORMAT + 1}")
    with pytest.raises(InputError, match=r"newer RoofLab \(format 2, this one reads 1\); update RoofLab"):
        kept.all()


def test_damage_is_said_whatever_it_is(kept):
    kept.save_all([named(f"n {n}") for n in range(200)])
    whole = kept.path.read_bytes()
    for cut in (17, 100, 600, len(whole) // 2):
        kept.path.write_bytes(whole[:cut])
        with pytest.raises(InputError, match=r"damaged|cannot be used|another program|holds no saved"):
            kept.all()
    middle = len(whole) // 2
    kept.path.write_bytes(whole[:middle] + os.urandom(2048) + whole[middle + 2048 :])
    with contextlib.suppress(InputError):  # refused, or read past what nobody uses; never anything else
        kept.all()
    kept.path.write_bytes(whole)
    alter(kept.path, "UPDATE scenarios SET ask = '{\"model\"' WHERE name = 'n 3'")
    with pytest.raises(InputError, match="'n 3' is damaged"):
        kept.all()
    kept.delete(["n 3"])  # and can be deleted
    assert len(kept.all()) == 199


def test_a_place_that_cannot_be_written_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be opened"):
        Store(tmp_path / "file/scenarios.sqlite3").save(RECORD)


def test_a_full_disk_keeps_what_was_saved(kept, monkeypatch):
    """SQLite's own refusal, by its limit on pages: said with what to do; what was there is there."""
    kept.save(RECORD)
    connect = sqlite3.connect

    def full(*args, **more):
        line = connect(*args, **more)
        (pages,) = line.execute("PRAGMA page_count").fetchone()
        line.execute(f"PRAGMA max_page_count = {pages}")
        return line

    monkeypatch.setattr(sqlite3, "connect", full)
    big = [named(f"n{n}", ask={**RECORD.ask, "model": {"x": "y" * 3000}}) for n in range(4)]
    with pytest.raises(InputError, match="the disk is full"):
        kept.save_all(big)
    assert kept.all() == [RECORD]


def test_what_may_only_be_read_is_read_and_says_so(kept, monkeypatch):
    kept.save(RECORD)
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda path, **more: connect(f"file:{path}?mode=ro", uri=True, **more))
    assert kept.all() == [RECORD]
    for change in (
        lambda: kept.save(named("other")),
        lambda: kept.rename(RECORD.name, "x"),
        lambda: kept.delete([RECORD.name]),
    ):
        with pytest.raises(InputError, match="may only be read; make it writable"):
            change()


def test_two_renames_of_one_scenario_lose_nothing(kept):
    """The page and the command line at once: one of them has it, the other is told; there is one scenario all the same."""
    for _ in range(10):
        kept.save(named("first"), replace=True)

        def rename(to):
            try:
                return Store(kept.path).rename("first", to).name
            except InputError as problem:
                return str(problem)

        with ThreadPoolExecutor(2) as both:
            said = list(both.map(rename, ("page", "line")))
        (left,) = kept.all()
        assert left.name in said
        assert sum("is not saved" in each for each in said) == 1
        kept.delete([left.name])


def test_a_thousand_are_kept_at_once_in_a_moment(kept):
    """An import of as many as there may be takes no time that grows with its square."""
    began = time.process_time()
    assert len(kept.save_all(named(f"n{n}") for n in range(store.MOST))) == store.MOST
    assert time.process_time() - began < 5
    with pytest.raises(InputError, match="holds 1,000 scenarios already"):
        kept.save_all([named("one more")])


def test_an_empty_file_is_a_new_store(tmp_path):
    path = tmp_path / "new.sqlite3"
    path.touch()
    assert Store(path).all() == []
    Store(path).save(RECORD)
    assert Store(path).all() == [RECORD]


def test_there_is_a_limit(kept, monkeypatch):
    monkeypatch.setattr(store, "MOST", 2)
    kept.save_all([named("a"), named("b")])
    with pytest.raises(InputError, match="holds 2 scenarios already"):
        kept.save(named("c"))
    with pytest.raises(InputError, match="at most"):
        kept.save(named("d", ask={"model": "x" * 2_000_001}))
    with pytest.raises(InputError, match="not plain data"):
        kept.save(named("d", ask={"model": float("nan")}))


@pytest.mark.parametrize(
    "platform, environment, ends",
    [
        ("linux", {"XDG_DATA_HOME": "/data"}, "/data/rooflab/scenarios.sqlite3"),
        (
            "linux",
            {"XDG_DATA_HOME": "not/absolute", "HOME": "/home/me"},
            "/home/me/.local/share/rooflab/scenarios.sqlite3",
        ),
        ("darwin", {"HOME": "/Users/me"}, "/Users/me/Library/Application Support/RoofLab/scenarios.sqlite3"),
        ("win32", {"LOCALAPPDATA": "/C/Local"}, "/C/Local/RoofLab/scenarios.sqlite3"),
        ("linux", {"ROOFLAB_STORE": "/elsewhere/mine.db"}, "/elsewhere/mine.db"),
    ],
)
def test_the_usual_place_is_the_platform_s(monkeypatch, platform, environment, ends):
    """XDG base directories; Apple's and Microsoft's folders for a user's data."""
    for name in ("XDG_DATA_HOME", "LOCALAPPDATA", store.VARIABLE):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert store.default_path() == Path(ends)


# ------------------------------------------------------------------------------------------------ JSON


def test_json_goes_there_and_back():
    """D-134: what is exported is imported whole."""
    records = [RECORD, named("second", digest={})]
    assert read(dump(records, "0.1.0")) == records


GOOD = json.loads(dump([RECORD], "0.1.0"))


@pytest.mark.parametrize(
    "data, says",
    [
        ("{", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
        ([], "holds no saved scenarios"),
        ({"rooflab": "other"}, "holds no saved scenarios"),
        ({**GOOD, "format": 2}, "newer RoofLab .format 2, this one reads 1."),
        ({**GOOD, "format": "1"}, "format: '1'"),
        ({**GOOD, "format": True}, "format: True"),
        ({**GOOD, "colour": 1}, "colour"),
        ({**GOOD, "scenarios": [{**GOOD["scenarios"][0], "colour": 1}]}, r"scenarios\[0\].*colour"),
        ({**GOOD, "scenarios": [{"name": "x"}]}, r"scenarios\[0\].*ask"),
        ({**GOOD, "scenarios": [{**GOOD["scenarios"][0], "ask": "rm -rf"}]}, r"scenarios\[0\].ask"),
        ({**GOOD, "scenarios": [{**GOOD["scenarios"][0], "name": "a\x1b[31m"}]}, "name"),
        ({**GOOD, "scenarios": [{**GOOD["scenarios"][0], "version": "1\x1b]0;x"}]}, "version"),
        ({**GOOD, "scenarios": [{**GOOD["scenarios"][0], "time": "<script>"}]}, "time"),
        ({**GOOD, "scenarios": GOOD["scenarios"] * 1001}, "1,001 scenarios"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(data, says):
    text = data if isinstance(data, str) else json.dumps(data)
    with pytest.raises(InputError, match=says) as caught:
        read(text, "given.json")
    assert "\n" not in str(caught.value)
    assert "given.json" in str(caught.value) or says in ("version", "time")
