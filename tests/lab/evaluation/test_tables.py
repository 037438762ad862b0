"""Tables, parsed back."""

import csv
import io
import re

import pytest
from rich.console import Console

from comixup.lab._runs import RunRecord
from comixup.lab._tables import markdown_table
from comixup.lab.evaluation._compare import compare
from comixup.lab.evaluation._tables import (
    as_csv,
    as_markdown,
    as_rich,
    write_comparison,
)

ROWS = [
    RunRecord("vanilla", 0, {"error": 24.0, "nll": 1.0}),
    RunRecord("vanilla", 1, {"error": 23.0, "nll": 1.25}),
    RunRecord("input_2 & more", 0, {"error": 21.5}),
    RunRecord("comixup", 0, {"error": 20.0, "nll": 0.75}),
    RunRecord("comixup", 1, {"error": 20.25}),
]


@pytest.fixture
def found():
    return compare(ROWS)


def markdown_rows(text):
    """Returns the cells of each table of a Markdown text."""
    tables, lines = [], []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            lines.append([cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
        elif lines:
            tables.append(lines)
            lines = []
    return tables


def test_markdown(found):
    figures, tests = markdown_rows(as_markdown(found))
    assert figures == [
        ["method", "n", "Top-1 error, % ↓", "NLL ↓"],
        [":--", "--:", "--:", "--:"],
        ["vanilla", "2", "23.50 ± 0.71", "1.125 ± 0.177"],
        ["input_2 & more", "1", "21.50", "-"],
        ["comixup", "2", "**20.12** ± 0.18", "**0.750** (n=1)"],
    ]
    assert tests[0] == [
        "method",
        "metric",
        "difference, 95 %",
        "Welch p",
        "paired p",
        "Holm p",
        "pairs",
    ]
    assert tests[2:] == [
        ["vanilla", "Top-1 error, %", "+3.38", "-", "-", "-", "2"],
        ["vanilla", "NLL", "+0.375", "-", "-", "-", "1"],
        ["input_2 & more", "Top-1 error, %", "+1.38", "-", "-", "-", "1"],
    ]
    assert "fewer than 3 seeds in common are not tested" in as_markdown(found)
    assert "With n = 1 there is no spread" in as_markdown(found)


MORE = [
    RunRecord("vanilla", 2, {"error": 23.25, "nll": 1.0}),
    RunRecord("comixup", 2, {"error": 20.125, "nll": 1.0}),
]


def test_three_seeds_are_tested():
    found = compare([*ROWS, *MORE])
    _, tests = markdown_rows(as_markdown(found))
    assert "-" not in tests[2]
    assert "against comixup" in as_markdown(found)
    row = next(csv.DictReader(io.StringIO(as_csv(found))))
    assert float(row["error_welch_p"]) == found.differences[0].welch
    assert float(row["error_paired_p"]) == found.differences[0].paired


def test_csv_keeps_all_digits(found):
    read = list(csv.DictReader(io.StringIO(as_csv(found))))
    assert [row["method"] for row in read] == ["vanilla", "input_2 & more", "comixup"]
    vanilla, other, ours = read
    assert float(vanilla["error_mean"]) == 23.5
    assert float(vanilla["error_std"]) == found.summaries["vanilla"]["error"].std
    assert (vanilla["error_welch_p"], vanilla["error_paired_p"]) == ("", "")
    assert (vanilla["n"], vanilla["error_n"], vanilla["error_pairs"]) == ("2", "2", "2")
    assert (other["error_std"], other["nll_mean"], other["nll_n"]) == ("", "", "0")
    assert (ours["error_best"], vanilla["error_best"]) == ("1", "0")
    assert ours["error_difference"] == ""


def test_nothing_is_cut_off_in_a_terminal_of_80_columns():
    methods = ("vanilla", "cutmix-p0.5", "comixup", "comixup-one-pass", "input-p0.5-double")
    metrics = {"error": 41.25, "top5_error": 12.5, "ece": 10.125, "nll": 1.5, "brier": 0.5}
    given = [
        RunRecord(method, seed, {name: value + k + seed * k / 7 for name, value in metrics.items()})
        for k, method in enumerate(methods)
        for seed in range(3)
    ]
    found = compare(given, reference="vanilla")
    console = Console(file=io.StringIO(), width=80)
    console.print(as_rich(found))
    text = console.file.getvalue()
    assert "…" not in text
    lines = text.splitlines()
    heads = [line.split() for line in lines if set(line.split()) & {*methods} and "  " in line]
    assert [name for head in heads for name in head][: len(methods)] == list(methods)
    for title in ("Top-1 error, %", "Top-5 error, %", "ECE, %", "NLL", "Brier"):
        assert (
            sum(title in line for line in lines) == 2 + len(methods) - 1
        )  # two tables, then tests
    (values,) = [row for row in markdown_rows(as_markdown(found))[0] if row[0] == "cutmix-p0.5"]
    assert [any(cell in line for line in lines) for cell in values[2:]] == [True] * len(metrics)
    assert any("+1.14 [+0.79, +1.50]" in line for line in lines)


def test_small_p_values_are_not_boasted_of():
    given = [RunRecord("a", s, {"error": 90.0 + s / 10}) for s in range(4)]
    given += [RunRecord("b", s, {"error": 1.0 + s / 11}) for s in range(4)]
    assert "< 0.001" in as_markdown(compare(given))


def test_names_are_not_taken_for_markup(tmp_path):
    given = [RunRecord("[red]a[/red]|x", 0, {"error": 1.0}), RunRecord("b", 0, {"error": 2.0})]
    console = Console(file=io.StringIO(), width=80)
    console.print(as_rich(compare(given)))
    assert console.file.getvalue().count("[red]a[/red]|x") > 1
    assert markdown_rows(as_markdown(compare(given)))[0][2][0] == r"[red]a[/red]\|x"
    write_comparison(compare(given), tmp_path / "new")
    assert (tmp_path / "new" / "comparison.md").read_text() == as_markdown(compare(given))
    assert (tmp_path / "new" / "comparison.csv").read_text() == as_csv(compare(given))


def test_a_line_stays_a_line():
    assert markdown_table(["a", "b"], [["x\ny", "1"]]).splitlines()[2] == "| x y | 1 |"
