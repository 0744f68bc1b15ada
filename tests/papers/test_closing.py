"""The count of published figures that we reach, on records that are made up."""

import json

import pytest

from papers.closing import all_cells, make_page
from papers.data import ROOT
from papers.pages import to_markdown


@pytest.fixture
def folder(tmp_path):
    """Two partitions of diabetes: MAP below, EP within, PLSOR above what was published."""
    errors = {"map": (0.50, 0.60), "ep": (0.60, 0.70), "plsor": (0.90, 0.95)}
    with (tmp_path / "gpor.jsonl").open("w") as file:
        for split in (1, 2):
            for model, (wrong, absolute) in errors.items():
                measures = {"zero_one": wrong, "absolute_median": absolute + 0.001 * split}
                cell = {"dataset": "diabetes", "bins": 5, "split": split, "model": model}
                file.write(json.dumps(cell | measures) + "\n")
    for name in ("order", "isbor"):
        (tmp_path / f"{name}.jsonl").write_text("")
    return tmp_path


def test_figures_are_counted_as_printed(folder):
    cells = {(c.label, c.where): c for c in all_cells(folder)}
    assert len(cells) == 6
    below = cells["MAP", "diabetes, 5 bins, zero-one"]  # published 54.23 +- 13.78
    assert below.beaten
    assert below.reached
    within = cells["EP", "diabetes, 5 bins, zero-one"]
    assert not within.beaten
    assert within.reached
    above = cells["PLSOR", "diabetes, 5 bins, zero-one"]  # published 48.46 +- 11.2
    assert not above.beaten
    assert not above.reached
    assert above.found.excess == pytest.approx((90 - 48.46) / 11.2)


def test_the_page_lists_what_is_missed(folder):
    text = to_markdown(make_page(folder))
    counts = next(line for line in text.splitlines() if line.startswith("| all"))
    assert [int(x) for x in counts.split("|")[4:7]] == [6, 2, 4]
    missed = text[text.index("not reached") :]
    assert "PLSOR" in missed
    assert "MAP" not in missed
    assert "not known" in missed


def test_the_page_is_what_the_command_makes_of_the_records():
    """All but the line with the commit."""
    made = to_markdown(make_page(ROOT / "papers" / "results")).splitlines()
    text = (ROOT / "docs" / "results" / "closing.md").read_text("utf-8").splitlines()
    assert [x for x in made if not x.startswith("Made by")] == [
        x for x in text if not x.startswith("Made by")
    ]
