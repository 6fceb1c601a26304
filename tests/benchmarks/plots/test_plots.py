"""Figures of records: what is drawn is what the records say, and files can be read by people and programs."""

import itertools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from made_records import agreement_record, rated_captions, with_histograms
from matplotlib.figure import Figure
from PIL import Image

from capbench.benchmarks import plots
from capbench.benchmarks.plots import write_figure
from capbench.benchmarks.records.record import Record
from capbench.errors import DataError, UsageError

pytestmark = pytest.mark.costly

SVG = "{http://www.w3.org/2000/svg}"
VALUES = {"bleu": (0.3, 0.27, 0.34), "cider": (0.44, 0.42, 0.46), "meteor": (0.42, 0.4, 0.44)}


def agreement_figure(records: Sequence[dict[str, Any]], **keys: Any) -> Figure:
    return plots.agreement_figure(list(map(Record, records)), **keys)


def ratings_figure(records: Sequence[dict[str, Any]], **keys: Any) -> Figure:
    return plots.ratings_figure(list(map(Record, records)), **keys)


def length_figure(records: Sequence[dict[str, Any]], **keys: Any) -> Figure:
    return plots.length_figure(list(map(Record, records)), **keys)


def dots(axes, name: str) -> dict[str, float]:
    """Return the numbers that marks of some name stand at, by the label of their row."""
    rows = [label.get_text() for label in axes.get_yticklabels()]
    (marks,) = [line for line in axes.lines if line.get_label() == name]
    return {rows[int(y)]: x for x, y in zip(*marks.get_data(), strict=True)}


def intervals(axes) -> list[tuple[float, float]]:
    drawn = [collection for collection in axes.collections if collection.get_gid() == "interval"]
    segments = [segment for collection in drawn for segment in collection.get_segments()]
    return [(float(segment[0][0]), float(segment[1][0])) for segment in segments]


def texts(axes) -> list[str]:
    return [text.get_text() for text in axes.texts]


def as_svg(figure, folder: Path) -> ElementTree.Element:
    write_figure(figure, folder / "drawn.svg")
    return ElementTree.fromstring((folder / "drawn.svg").read_bytes())  # noqa: S314 - we wrote it


def ink(figure, tmp_path: Path) -> np.ndarray:
    """Return ``[height, width]`` where a figure is not white."""
    write_figure(figure, tmp_path / "drawn.png")
    return np.asarray(Image.open(tmp_path / "drawn.png").convert("L")) < 250


# -- agreement


def test_dots_intervals_and_published_values_stand_at_the_scaled_numbers_of_the_record():
    record = agreement_record(VALUES, published={"cider": 0.439, "bleu": 0.305})
    (axes,) = agreement_figure([record]).axes
    assert dots(axes, "measured") == pytest.approx({"CIDER": 44, "METEOR": 42, "BLEU": 30})
    assert dots(axes, "published") == pytest.approx({"CIDER": 43.9, "BLEU": 30.5})
    assert intervals(axes) == [pytest.approx(interval) for interval in [(42, 46), (40, 44), (27, 34)]]
    assert axes.get_xlabel() == "τ-c × 100  (n = 1,200)"
    assert axes.get_title(loc="left") == "Rated"


def test_a_dot_without_an_interval_and_a_metric_without_a_value_are_shown_as_that():
    values = {"plain": (0.4, None, None), "nothing": None, "no_value": (None, None, None)}
    figure = agreement_figure([agreement_record(values)])
    (axes,) = figure.axes
    assert dots(axes, "measured") == pytest.approx({"PLAIN": 40})
    assert intervals(axes) == []
    assert texts(axes) == ["undefined", "undefined"]
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["measured"]


def test_published_values_of_metrics_without_a_value_are_shown(tmp_path: Path):
    figure = agreement_figure([agreement_record({"bleu": None})])
    assert texts(figure.axes[0]) == ["undefined"]
    assert ink(figure, tmp_path).any()
    (axes,) = agreement_figure([agreement_record({"bleu": None}, published={"bleu": 0.3})]).axes
    assert dots(axes, "published") == pytest.approx({"BLEU": 30})
    assert texts(axes) == []


def test_letters_of_one_run_are_not_shown_beside_metrics_of_another():
    first = agreement_record(VALUES, groups={"cider": "a", "meteor": "a", "bleu": "b"})
    second = agreement_record({"spice": (0.4, 0.3, 0.5)})
    figure = agreement_figure([first, second])
    assert texts(figure.axes[0]) == []
    assert len(figure.axes[0].get_yticklabels()) == 4


def test_values_that_are_orders_of_magnitude_apart_get_a_logarithmic_axis():
    values = {"a": (1.7e5, 1e5, 2e5), "b": (1.2, 1.0, 1.4)}
    record = agreement_record(values, label="1-R²", higher_is_better=False, scale=1)
    (axes,) = agreement_figure([record]).axes
    assert axes.get_xscale() == "log"
    assert axes.get_xlabel().startswith("1-R²  (")
    assert list(dots(axes, "measured")) == ["B", "A"], "the best one is on top"
    assert agreement_figure([agreement_record(VALUES)]).axes[0].get_xscale() == "linear"


def test_accuracy_is_that_over_all_categories_unless_one_is_named():
    record = agreement_record(VALUES, statistic="accuracy.HM", label="accuracy HM")
    overall = agreement_record({"cider": (0.9, 0.8, 0.95)}, statistic="accuracy", label="accuracy")
    record["intervals"] |= overall["intervals"]
    record["results"]["rated"] |= overall["results"]["rated"]
    record["configs"]["rated"]["output_type"] = "preference"
    assert dots(agreement_figure([record]).axes[0], "measured") == pytest.approx({"CIDER": 90})
    named = agreement_figure([record], statistic="accuracy.HM").axes[0]
    assert named.get_xlabel().startswith("accuracy HM × 100")
    assert dots(named, "measured")["CIDER"] == pytest.approx(44)


def test_of_the_same_metric_the_newest_run_counts():
    old = agreement_record({"cider": (0.1, None, None), "bleu": (0.2, None, None)}, date=1.0)
    new = agreement_record({"cider": (0.3, None, None)}, date=2.0)
    for records in ([old, new], [new, old]):
        (axes,) = agreement_figure(records).axes
        assert dots(axes, "measured") == pytest.approx({"CIDER": 30, "BLEU": 20})


def test_a_metric_with_two_models_is_two_metrics():
    records = [
        agreement_record({"clip_s": (value, None, None)}, model_name=model, made_by={"clip_s": {"encoder": model}})
        for model, value in (("b32", 0.5), ("l14", 0.6))
    ]
    (axes,) = agreement_figure(records).axes
    assert dots(axes, "measured") == pytest.approx({"CLIP_S [l14]": 60, "CLIP_S [b32]": 50})


def test_a_statistic_that_a_task_lacks_leaves_it_out_by_name():
    notes: list[str] = []
    records = [agreement_record(VALUES), agreement_record(VALUES, task="pairs", statistic="accuracy")]
    figure = agreement_figure(records, statistic="kendall_c", notes=notes)
    assert len(figure.axes) == 1
    assert notes == ["Pairs is left out: it has no statistic kendall_c"]


def test_metrics_are_chosen_by_name_and_what_is_not_there_is_named_with_the_nearest():
    (axes,) = agreement_figure([agreement_record(VALUES)], metrics=["meteor", "bleu"]).axes
    assert list(dots(axes, "measured")) == ["METEOR", "BLEU"]
    with pytest.raises(UsageError, match=r"no run has statistic 'kendal_c'\. Did you mean 'kendall_c'\?"):
        agreement_figure([agreement_record(VALUES)], statistic="kendal_c")
    with pytest.raises(UsageError, match=r"no run has metric 'cidr' to plot\. Did you mean 'cider'\?"):
        agreement_figure([agreement_record(VALUES)], metrics=["cidr"])
    with pytest.raises(DataError, match="task 'rated' has protocol generate_until"):
        agreement_figure([agreement_record(VALUES, configs={"rated": {"output_type": "generate_until"}})])


# -- ratings


def test_each_rating_has_its_histogram_median_and_number_of_captions():
    record = rated_captions(["cider"])
    by_rating = record["histograms"]["cider"]["by_rating"]
    (axes,) = ratings_figure([record]).axes
    ridges = [patch.get_data() for patch in axes.patches]
    for row, (ridge, counts) in enumerate(zip(ridges, by_rating["counts"], strict=True)):
        assert ridge.edges.tolist() == record["histograms"]["cider"]["edges"]
        heights = ridge.values - row
        assert heights / heights.max() == pytest.approx(np.array(counts) / max(counts))
        assert heights.max() == pytest.approx(0.86)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["1", "2", "3", "4"]
    assert texts(axes) == [*(f"{sum(counts):,}" for counts in by_rating["counts"]), "n"]
    medians = [collection.get_segments()[0][0][0] for collection in axes.collections]
    assert medians == sorted(medians)


def test_medians_are_exact_to_the_width_of_a_bin():
    generator = np.random.default_rng(1)
    scores = generator.gamma(2.0, 1.0, 999)
    plain = agreement_record({"cider": (0.4, 0.3, 0.5)})
    record = with_histograms(plain, {"cider": scores.tolist()}, [1.0] * 999, [7] * 999)
    edges = record["histograms"]["cider"]["edges"]
    (axes,) = ratings_figure([record]).axes
    drawn = axes.collections[0].get_segments()[0][0][0]
    assert abs(drawn - np.median(scores)) < edges[1] - edges[0]


def test_ratings_of_many_digits_can_be_told_apart():
    record = rated_captions(["cider"])
    record["histograms"]["cider"]["by_rating"]["ratings"] = [-0.0, 99.951, 99.952, 20000.0]
    (axes,) = ratings_figure([record]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["0", "99.951", "99.952", "20,000"]


def test_a_rating_without_captions_has_no_median():
    record = rated_captions(["cider"])
    record["histograms"]["cider"]["by_rating"]["counts"][1] = [0] * 20
    (axes,) = ratings_figure([record]).axes
    assert len(axes.collections) == 3
    assert texts(axes)[1] == "0"


# -- length


def test_medians_and_quartiles_stand_over_the_middle_of_each_bin_of_words():
    record = rated_captions(["cider"])
    by_words = record["histograms"]["cider"]["by_words"]
    axes, strip = length_figure([record]).axes
    (line,) = axes.lines
    assert line.get_xdata().tolist() == [(a + b - 1) / 2 for a, b in itertools.pairwise(by_words["edges"])]
    assert np.all(np.diff(line.get_ydata()[[0, 5, 10, 15]]) < 0), "longer captions score lower here"
    (bars,) = strip.patches
    assert bars.get_data().values.tolist() == [sum(counts) for counts in by_words["counts"]]
    (band,) = axes.collections
    ends = band.get_paths()[0].get_extents()
    assert ends.y0 < line.get_ydata().min() < line.get_ydata().max() < ends.y1


def test_lengths_of_few_captions_are_joined_with_their_neighbours():
    record = rated_captions(["cider"])
    by_words = record["histograms"]["cider"]["by_words"]
    by_words["edges"] = [1, 2, 3, 4, 5, 6, 7]
    by_words["counts"] = [[n] + [0] * 19 for n in (30, 0, 4, 12, 20, 1)]
    axes, strip = length_figure([record]).axes
    assert axes.lines[0].get_xdata() == pytest.approx([1, (3 * 4 + 4 * 12) / 16, (5 * 20 + 6) / 21])
    assert strip.patches[0].get_data().values.tolist() == [30, 0, 4, 12, 20, 1]


@pytest.mark.parametrize("draw", [ratings_figure, length_figure])
def test_runs_without_histograms_are_left_out_by_name(draw):
    without = agreement_record(VALUES, histograms={})
    with pytest.raises(DataError, match="has no scores of single captions"):
        draw([without])
    notes: list[str] = []
    draw([without, rated_captions(["cider"], task="new")], notes=notes)
    assert len(notes) == 1
    assert notes[0].startswith("Rated is left out: the run of task 'rated' (protocol agreement) has no scores")


def test_captions_without_ratings_have_lengths_only():
    record = rated_captions(["cider"], configs={"rated": {"output_type": "generate_until"}})
    del record["histograms"]["cider"]["by_rating"]
    assert length_figure([record]).axes
    with pytest.raises(DataError, match=r"'rated' \(protocol generate_until\) have no human ratings"):
        ratings_figure([record])


# -- what holds for all


FIGURES = (agreement_figure, ratings_figure, length_figure)
RECORDS = [rated_captions(["cider", "meteor"])]


@pytest.mark.parametrize("draw", FIGURES)
def test_files_are_the_same_byte_by_byte_and_have_no_date(draw, tmp_path: Path):
    figures = [draw(RECORDS, metrics=["cider"]) for _ in range(2)]
    for fmt in ("svg", "pdf"):
        for name, figure in zip(("first", "second"), figures, strict=True):
            write_figure(figure, tmp_path / f"{name}.{fmt}")
        first = (tmp_path / f"first.{fmt}").read_bytes()
        assert first == (tmp_path / f"second.{fmt}").read_bytes()
        assert b"Date" not in first


@pytest.mark.parametrize(("draw", "width"), list(zip(FIGURES, ("single", "double", "single"), strict=True)))
def test_png_has_the_width_of_the_columns_at_300_dpi_nothing_over_its_border_and_a_text_for_those_who_cannot_see_it(
    draw, width, tmp_path: Path
):
    drawn = ink(draw(RECORDS, width=width), tmp_path)
    image = Image.open(tmp_path / "drawn.png")
    assert image.width == {"single": 990, "double": 2070}[width]
    assert image.info["dpi"] == pytest.approx((300, 300), abs=0.1)
    assert image.info["Title"]
    assert "CIDER" in image.info["Description"]
    assert not np.concatenate([drawn[0], drawn[-1], drawn[:, 0], drawn[:, -1]]).any()


@pytest.mark.parametrize("draw", FIGURES)
def test_svg_keeps_texts_as_texts_and_names_itself(draw, tmp_path: Path):
    root = as_svg(draw(RECORDS), tmp_path)
    assert {"CIDER", "METEOR"} <= {element.text for element in root.iter(f"{SVG}text")}
    assert root.get("role") == "img"
    names = {element.get("id"): element for element in root if element.tag in (f"{SVG}title", f"{SVG}desc")}
    assert root.get("aria-labelledby") == " ".join(names)
    assert names["title"].text
    assert "CIDER" in (names["description"].text or "")
    width = root.get("width") or ""
    assert float(width.removesuffix("pt")) == pytest.approx(3.3 * 72, abs=0.1)


def test_the_description_has_the_numbers(tmp_path: Path):
    record = agreement_record(
        {"a": (0.5, 0.4, 0.6), "b": (-0.25, None, None), "c": None}, published={"a": 0.51}, groups={"a": "a", "b": "b"}
    )
    write_figure(agreement_figure([record]), tmp_path / "drawn.png")
    assert Image.open(tmp_path / "drawn.png").info["Description"] == (
        "Rated, τ-c × 100, n = 1,200: A 50.00 (95% CI 40.00 to 60.00; published 51.0; group a), "
        "B −25.00 (group b), C undefined."
    )


def test_figures_leave_nothing_behind_and_a_users_own_settings_do_not_change_them(tmp_path, monkeypatch):
    import matplotlib

    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)  # importing it now fails
    write_figure(agreement_figure([agreement_record(VALUES)]), tmp_path / "plain.svg")
    with matplotlib.rc_context({"font.size": 30, "svg.fonttype": "path", "axes.grid": True}):
        figure = agreement_figure([agreement_record(VALUES)])
        assert matplotlib.rcParams["font.size"] == 30
        write_figure(figure, tmp_path / "own.svg")
        assert matplotlib.rcParams["font.size"] == 30
    assert figure.axes[0].xaxis.label.get_size() == 8
    assert (tmp_path / "plain.svg").read_bytes() == (tmp_path / "own.svg").read_bytes()


def test_a_missing_matplotlib_is_said_with_the_remedy(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(UsageError, match=r"matplotlib, which is not installed.*\npip install 'capbench\[plot\]'$"):
        agreement_figure([agreement_record(VALUES)])


@pytest.mark.parametrize("name", ["figure.jpg", "figure", "figure.sgv"])
def test_figures_of_others_are_written_too_and_other_formats_are_refused(name, tmp_path: Path):
    figure = Figure()
    figure.add_subplot().plot([1, 2])
    assert as_svg(figure, tmp_path).tag == f"{SVG}svg"
    with pytest.raises(UsageError, match=r"plots cannot be written in format.*\n.*\.png, \.svg or \.pdf"):
        write_figure(figure, tmp_path / name)
