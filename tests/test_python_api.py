"""The Python API: thin over `api.answer`, results that read well, and many points at once equal to one by one."""

import copy
import html.parser
import inspect
import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rooflab
from rooflab import api, catalog
from rooflab.api.asks import EstimateAsk

LLAMA = {"model": "llama-3.1-8b", "on": "h100-sxm"}


def estimate(**question):
    return rooflab.estimate(**{**LLAMA, **question})


# ----------------------------------------------------------------------------------------------------- the package


def python(code):
    """What a fresh interpreter prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_it_is_quick():
    """Neither NumPy nor Rich nor the engine is loaded before a question is asked."""
    assert (
        python(
            "import rooflab, sys; print([m for m in ('numpy', 'rich', 'msgspec', 'rooflab.api') if m in sys.modules])"
        )
        == "[]"
    )


def test_public_names():
    """Few, sorted, and all there."""
    assert rooflab.__all__ == sorted(rooflab.__all__)
    assert len(rooflab.__all__) <= 25
    assert all(getattr(rooflab, name) is not None for name in rooflab.__all__)
    assert set(rooflab.__all__) <= set(dir(rooflab))
    with pytest.raises(AttributeError, match="estimat"):
        _ = rooflab.estimat  # type: ignore[attr-defined]


SHARED = ("catalog", "chip", "estimate", "explain")
CALL = "rooflab.estimate('llama-3.1-8b', on='h100-sxm').fits"


@pytest.mark.parametrize(
    "first",
    [
        "import rooflab",
        "import rooflab, rooflab.estimate",
        "import rooflab.estimate",
        "import rooflab.estimate as module, rooflab; assert module.Workload",
        "from rooflab.estimate import Workload; import rooflab",
        "from rooflab import estimate; import rooflab; assert estimate.Workload and estimate('gpt2', on='t4').fits",
        "import rooflab.api, rooflab.cli, rooflab.notebook",
        "import rooflab; rooflab.chip; rooflab.catalog; import rooflab.chip.formulas, rooflab.explain",
        "from rooflab import *; import rooflab; assert estimate('gpt2', on='t4').fits",
    ],
)
def test_a_question_that_is_a_module_as_well(first):
    """In whatever order things are imported, `rooflab.estimate` can be called, and the engine's module is there."""
    code = f"{first}; print({CALL}, rooflab.estimate.Workload.__name__, callable(rooflab.chip), rooflab.catalog('formats').what)"
    assert python(code) == "True Workload True formats"


@pytest.mark.parametrize("name", SHARED)
def test_they_show_the_parameters_of_the_question(name):
    from rooflab import notebook

    assert inspect.signature(getattr(rooflab, name)) == inspect.signature(getattr(notebook, name))


def test_defaults_are_those_of_the_questions():
    """Stated in the signatures for the reader's sake; here they are held to the asks'."""
    from rooflab.cli.reading import KINDS

    for kind in ("estimate", "step", "fit", "chip", "inspect"):
        asked = api.ask_of({"kind": kind, "model": "gpt2", **({} if kind == "inspect" else {"on": "t4"})})
        for name, parameter in inspect.signature(getattr(rooflab, kind)).parameters.items():
            if parameter.default is not inspect.Parameter.empty:
                assert parameter.default == getattr(asked, name), (kind, name)
                assert name in KINDS[kind].__struct_fields__


# ------------------------------------------------------------------------------------------------------- questions


@pytest.mark.parametrize(
    "ask, question",
    [
        (rooflab.estimate, {"kind": "estimate", **LLAMA, "batch": 8}),
        (rooflab.step, {"kind": "step", **LLAMA, "phase": "prefill"}),
        (rooflab.explain, {"kind": "explain", **LLAMA, "op": "kv"}),
        (rooflab.fit, {"kind": "fit", **LLAMA}),
        (rooflab.chip, {"kind": "chip", **LLAMA}),
        (rooflab.inspect, {"kind": "inspect", "model": "gpt2"}),
        (rooflab.catalog, {"kind": "catalog", "what": "profiles"}),
    ],
)
def test_every_question_is_the_one_door(ask, question):
    """The answer is `api.answer`'s, whole."""
    options = {key: value for key, value in question.items() if key != "kind"}
    assert ask(**options).to_dict() == json.loads(json.dumps(api.answer(question)))
    assert rooflab.answer(question) == ask(**options)


def test_names_paths_dicts_and_systems_are_taken():
    """A model by name, path or content; a machine by name, dict or System; numbers as text or NumPy scalars."""
    path = next(Path(catalog.FOLDER).glob("models/llama-3.1-8b.json"))
    plain = estimate(batch=4).tpot
    assert rooflab.estimate(path, on="h100-sxm", batch=4).tpot == plain
    assert rooflab.estimate(json.loads(path.read_text()), on="h100-sxm", batch=4).tpot == plain
    assert estimate(on=catalog.system("h100-sxm"), batch=4).tpot == plain
    assert estimate(batch=np.int64(4)).tpot == plain
    assert estimate(batch="4", prompt="1Ki").tpot == plain
    assert estimate(on={"device": "h100-sxm"}, batch=4).tpot == plain


def test_names_of_the_catalog():
    assert rooflab.models() == list(catalog.model_names())
    assert rooflab.systems() == list(catalog.system_names())
    assert rooflab.devices() == list(catalog.device_names())
    assert rooflab.schema() == api.schema()


@pytest.mark.parametrize(
    "question, says",
    [
        ({"bacth": 3}, "batch"),
        ({"batch": "many"}, "batch"),
        ({"batch": 0}, "batch"),
        ({"tp": 3}, "32 heads"),
        ({"model": "lama-3.1-8b"}, "llama-3.1-8b"),
        ({"model": 3}, "model"),
        ({"on": None}, "on"),
        ({"weights": "fp9"}, "fp8"),
    ],
)
def test_bad_input_is_an_input_error(question, says):
    """One exception, one line, which names the field."""
    with pytest.raises(rooflab.InputError, match=says) as caught:
        estimate(**question)
    assert len(str(caught.value).splitlines()) == 1


# --------------------------------------------------------------------------------------------------------- results


def test_a_result_is_a_mapping_with_attributes():
    answer = estimate(batch=32)
    assert answer["memory"]["used"] == answer.memory.used
    assert answer.ask.batch == 32
    assert dict(answer)["ttft"] == answer.ttft
    assert {"ttft", "memory", "to_frame"} <= set(dir(answer))
    assert rooflab.step(**LLAMA).ops[0].name
    with pytest.raises(AttributeError, match="did you mean 'ttft'"):
        _ = answer.tttft
    with pytest.raises(KeyError):
        _ = answer["nothing"]


def test_results_survive_copying_and_pickling():
    answer = estimate(batch=32)
    for other in (pickle.loads(pickle.dumps(answer)), copy.copy(answer), copy.deepcopy(answer)):
        assert other == answer
        assert type(other) is rooflab.Result


def test_json_and_back():
    answer = estimate(batch=32)
    assert rooflab.answer(json.loads(answer.to_json())["ask"]) == answer
    assert json.loads(answer.to_json()) == answer.to_dict()


ALL = {
    "estimate": lambda: estimate(batch=32),
    "over": lambda: estimate(model="llama-3.1-70b"),
    "step": lambda: rooflab.step(**LLAMA),
    "explain": lambda: rooflab.explain(**LLAMA, op="ttft"),
    "fit": lambda: rooflab.fit("llama-3.1-70b", on="h100-sxm"),
    "chip": lambda: rooflab.chip(**LLAMA),
    "inspect": lambda: rooflab.inspect("deepseek-v3"),
    "catalog": lambda: rooflab.catalog("devices"),
    "points": lambda: estimate(batch=[1, 64, 4096]),
}


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_they_print_as_pages(make):
    text = repr(make())
    assert len(text.splitlines()) > 6
    assert "\x1b" not in text


class Balance(html.parser.HTMLParser):
    """Complains about an element that is closed out of turn or not at all."""

    def __init__(self):
        super().__init__()
        self.open, self.text, self.loads = [], [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.loads += [value for name, value in attrs if name in ("src", "href") or "url(" in (value or "")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


@pytest.mark.parametrize("make", ALL.values(), ids=ALL)
def test_notebooks_show_html(make):
    """Well-formed, loads nothing, and holds the same verdict and names as the text."""
    result = make()
    page = Balance()
    page.feed(result._repr_html_())
    assert page.open == []
    assert page.loads == []
    assert result._page().title in "".join(page.text)


def test_html_is_escaped():
    config = json.loads((Path(catalog.FOLDER) / "models/gpt2.json").read_text()) | {
        "_name_or_path": "<script>alert(1)</script>"
    }
    assert "<script>" not in rooflab.inspect(config)._repr_html_()
    assert "<script>" not in rooflab.answer({"kind": "fit", "model": config, "on": "t4"})._repr_html_()


def test_frames():
    """Operators of a step, a row each; points with a row each and mappings flattened."""
    step = rooflab.step(**LLAMA)
    frame = step.to_frame()
    assert list(frame["name"]) == [op.name for op in step.ops]
    assert {"shape_m", "time", "bound"} <= set(frame.columns)
    points = estimate(batch=[[1], [64]], prompt=[1024, 2048])
    frame = points.to_frame()
    assert len(frame) == 4
    assert list(frame["batch"]) == [1, 1, 64, 64]
    assert list(frame["ttft"]) == points.ttft.ravel().tolist()
    assert list(frame["memory_used"]) == points.memory.used.ravel().tolist()
    assert list(rooflab.catalog("formats").to_frame()["name"]) == [row.name for row in rooflab.catalog("formats").rows]
    for make in ALL.values():
        assert len(make().to_frame()) >= 1


def test_a_frame_without_pandas_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(rooflab.InputError, match=r"rooflab\[data\]"):
        rooflab.step(**LLAMA).to_frame()


def test_without_rich_a_result_prints_as_json(monkeypatch):
    answer = estimate()
    monkeypatch.delattr("rooflab.cli.terminal", raising=False)
    monkeypatch.setitem(sys.modules, "rooflab.cli.terminal", None)
    assert json.loads(repr(answer)) == answer.to_dict()


# ---------------------------------------------------------------------------------------------------------- points

FIGURES = ("ttft", "tpot", "e2e", "output_throughput", "decode_throughput", "throughput_per_device",
           "tokens_per_second_per_user", "energy_per_token")  # fmt: skip


def same_as_one_by_one(points, place, **axes):
    """Every point equals its own estimate, or has no figures where that has none."""
    for at in np.ndindex(points.shape):
        one = {axis: int(array[at]) for axis, array in zip(axes, np.broadcast_arrays(*axes.values()), strict=True)}
        try:
            answer = rooflab.estimate(**place, **one)
        except rooflab.InputError:
            assert not points.feasible[at]
            assert np.isnan(points.ttft[at])
            continue
        assert points.feasible[at]
        assert points.fits[at] == answer.fits
        assert points.devices[at] == answer.devices
        for kind in answer.memory:
            assert points.memory[kind][at] == pytest.approx(answer.memory[kind], rel=1e-12)
        for name in FIGURES:
            expected = np.nan if answer[name] is None else answer[name]
            assert points[name][at] == pytest.approx(expected, rel=1e-12, nan_ok=True), (name, one)
        for key, values in (points.cost_per_million_tokens or {}).items():
            expected = (answer.cost_per_million_tokens or {}).get(
                key, np.nan
            )  # an answer of one token has no output cost
            assert values[at] == pytest.approx(expected, rel=1e-12, nan_ok=True)


def test_many_points_equal_each_by_itself():
    """One path for one point and many: array = scalar, refused and overfull points included."""
    axes = {"batch": [[1], [7], [64], [4096]], "tp": [1, 2, 3, 8]}
    place = {"model": "llama-3.1-8b", "on": "8x h100-sxm", "prompt": 1000, "output": 200}
    same_as_one_by_one(rooflab.estimate(**place, **axes), place, **axes)


def test_points_of_experts_get_their_attention_groups():
    """Experts spread over more devices than tp gives imply attention groups, point by point."""
    axes = {"tp": [[1], [2], [8]], "ep": [1, 4, 8], "batch": [[32]]}
    place = {"model": "mixtral-8x7b", "on": "8x h200-sxm", "prompt": 512, "output": 64}
    same_as_one_by_one(rooflab.estimate(**place, **axes), place, **axes)


def test_points_of_pipelines_and_replicas():
    axes = {"pp": [1, 2, 4, 1], "dp": [1, 2, 1, 8], "microbatches": [1, 2, 4, 1], "output": [1, 2, 300, 300]}
    place = {"model": "llama-3.1-8b", "on": "8x h100-sxm", "batch": 8, "prompt": 700}
    same_as_one_by_one(rooflab.estimate(**place, **axes), place, **axes)


def test_a_layout_that_all_points_share_is_named_where_it_is_refused():
    """Only the batch varies, so the reason says which degree is wrong, as for one point."""
    points = rooflab.estimate("llama-3.1-8b", on="8x h100-sxm", tp=7, batch=[1, 2])
    assert not points.feasible.any()
    assert points.reasons[0] == "tp=7 does not divide the 32 heads"


def test_ignoring_memory_shows_what_does_not_fit():
    place = {"model": "llama-3.1-70b", "on": "h100-sxm", "ignore_memory": True}
    points = rooflab.estimate(**place, batch=[1, 8])
    assert not points.fits.any()
    same_as_one_by_one(points, place, batch=[1, 8])


@pytest.mark.parametrize("axis", ["batch", "prompt", "output", "cached", "tp", "pp", "cp", "dp", "ep", "attention_dp"])
@pytest.mark.parametrize("many", [list, tuple, np.array])
def test_every_axis_may_be_several(axis, many):
    points = rooflab.estimate("mixtral-8x7b", on="8x h200-sxm", **{axis: many([1, 2])})
    assert points.shape == (2,)
    assert points.inputs[axis].tolist() == [1, 2]
    assert json.loads(points.to_json())["ask"][axis] == [1, 2]


def test_a_range_is_several():
    assert estimate(batch=range(1, 5)).inputs.batch.tolist() == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "question, says",
    [
        ({"batch": [1, 2], "prompt": [1, 2, 3]}, "shapes"),
        ({"batch": []}, "batch"),
        ({"batch": [1, 0]}, "batch: 0"),
        ({"batch": [1.5]}, r"batch: 1\.5"),
        ({"batch": [True]}, "batch"),
        ({"batch": [float("nan")]}, "batch: nan"),
        ({"batch": ["many"]}, "batch"),
        ({"batch": [[1], [2, 3]]}, "batch"),
        ({"cached": [0, 5000]}, "cached"),
        ({"tp": [1, 2], "profile": "operators"}, "operator"),
        ({"tp": [1, 2], "bacth": 3}, "batch"),
    ],
)
def test_bad_lists_are_one_line(question, says):
    with pytest.raises(rooflab.InputError, match=says) as caught:
        estimate(**question)
    assert len(str(caught.value).splitlines()) == 1


def test_lists_without_numpy_say_so(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(rooflab.InputError, match="NumPy"):
        estimate(batch=[1, 2])


def test_reasons_say_why_points_cannot_be_run():
    points = rooflab.estimate("llama-3.1-8b", on="8x h100-sxm", tp=[1, 3])
    assert points.feasible.tolist() == [True, False]
    assert any("heads" in reason for reason in points.reasons)
    assert "heads" in repr(points)


def test_the_axes_are_fields_of_the_question():
    from rooflab.notebook.points import AXES

    assert set(AXES) <= set(EstimateAsk.__struct_fields__)
