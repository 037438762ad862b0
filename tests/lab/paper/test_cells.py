"""Cells of result tables: read from runs, kept as CSV, made into tables and figures."""

import dataclasses
import re
import statistics
import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file

sys.path.append(str(Path(__file__).parents[1] / "training"))

from comixup.lab.evaluation import fit_temperature, holm, paired_test
from comixup.lab.paper.cells import merged, read_cells, read_run, write_cells
from comixup.lab.paper.small_data import (
    HEADLINE,
    LENGTHS,
    OTHERS,
    collect,
    contrasts,
    report,
    write_report,
)
from comixup.lab.paper.small_data._arms import EXPLORED, REPLICATED
from comixup.lab.training import RECIPES, passes_per_image
from small_runs import recipe, train_here, write_images

pytestmark = pytest.mark.usefixtures("drawn")


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    """A finished run with images held out."""
    data = write_images(tmp_path_factory.mktemp("images"))
    chosen = recipe(images_per_class=3, validation=0.4, validation_seed=0)
    return train_here(data, tmp_path_factory.mktemp("runs"), "comixup", chosen)


@pytest.fixture(scope="module")
def cell(run_folder):
    return read_run(run_folder)


def made_up(cell, method, seed, error, ece, passes=60.0):
    return dataclasses.replace(cell, method=method, seed=seed, error=error, ece=ece, passes=passes)


@pytest.fixture(scope="module")
def cells(cell):
    """Cells of all arms, with errors that tell arm and seed."""
    arms = dict.fromkeys([*HEADLINE, *OTHERS, *(arm for arms in LENGTHS.values() for arm in arms)])
    spread = torch.Generator().manual_seed(0)
    return [
        made_up(cell, arm, seed, 30 + 0.5 * k + noise, 10 - 0.2 * k + noise / 2, 30.0 + k)
        for k, arm in enumerate(arms)
        for seed, noise in enumerate(torch.rand(4, generator=spread).tolist())
    ]


def test_a_cell_has_what_the_run_kept(run_folder, cell):
    logits = load_file(run_folder / "logits.safetensors")
    test, targets = logits["test_logits"].double(), logits["test_targets"].long()
    assert cell.error == pytest.approx(100 * (test.argmax(1) != targets).double().mean().item())
    assert cell.nll == pytest.approx(F.cross_entropy(test, targets).item(), rel=1e-2)
    held_out = logits["validation_logits"].float(), logits["validation_targets"].long()
    assert cell.temperature == pytest.approx(fit_temperature(*held_out))
    scaled = F.cross_entropy(test / cell.temperature, targets).item()
    assert cell.scaled_nll == pytest.approx(scaled, rel=1e-6)
    assert (cell.method, cell.seed, cell.epochs, cell.passes) == ("comixup", 0, 3, 6.0)
    assert sum(count for count, _, _ in cell.bins) == len(targets)
    assert cell.cpu_seconds > 0


def test_cells_are_read_as_they_were_written(cells, tmp_path):
    write_cells(cells[::-1], tmp_path / "new" / "cells.csv")
    found = read_cells(tmp_path / "new" / "cells.csv")
    assert len(found) == len(cells)
    first = min(cells, key=lambda c: (c.method, c.seed))
    assert found[0].method == first.method
    assert found[0].error == pytest.approx(first.error, rel=1e-5)
    assert found[0].bins[-1][0] == first.bins[-1][0]
    write_cells(found, tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_bytes() == (tmp_path / "new" / "cells.csv").read_bytes()


def test_a_run_that_is_collected_again_replaces_its_cell(cell):
    newer = dataclasses.replace(cell, error=1.0)
    other = dataclasses.replace(cell, seed=5)
    assert [c.error for c in merged([cell, other], [newer])] == [1.0, other.error]


@pytest.mark.parametrize(
    ("method", "passes"),
    [
        ("vanilla", 1),
        ("cutmix-p0.5", 1),
        ("cutmix-clean", 2),
        ("puzzlemix", 2),
        ("comixup", 2),
        ("comixup-no-clean", 2),
        ("comixup-small", 1.5),
        ("comixup-one-pass-double", 1),
    ],
)
def test_passes_are_counted(method, passes):
    fields = RECIPES["cifar100-small-data"].as_dict()["methods"][method]
    assert passes_per_image(fields) == passes


def test_the_primary_family_is_tested_together(cells):
    found = contrasts(cells)
    others = len(HEADLINE) - 1
    assert len(found) == 2 * (others + others - 1)
    assert [c.holm for c in found] == pytest.approx(holm([c.p for c in found]))
    first = found[0]
    assert (first.reference, first.arm, first.metric) == ("comixup", "vanilla", "error")
    mine, theirs = (
        {c.seed: c.error for c in cells if c.method == arm} for arm in ("comixup", "vanilla")
    )
    differences = [mine[seed] - theirs[seed] for seed in mine]
    assert first.difference == pytest.approx(statistics.fmean(differences))
    assert first.p == pytest.approx(paired_test(differences))


def test_tests_without_runs_count_too(cells):
    whole = {(c.reference, c.arm, c.metric): c for c in contrasts(cells)}
    fewer = contrasts([c for c in cells if c.method not in ("puzzlemix", "cutmix-clean")])
    assert 0 < len(fewer) < len(whole)
    for found in fewer:
        before = whole[found.reference, found.arm, found.metric]
        assert found.p == before.p
        assert found.holm >= before.holm
    smallest = min(fewer, key=lambda c: c.p)
    assert smallest.holm == pytest.approx(min(1, len(whole) * smallest.p))


def test_the_report_is_made_from_the_table_alone(cells, run_folder, tmp_path):
    table = tmp_path / "cells.csv"
    write_cells(cells, table)
    write_report(table, tmp_path / "out")
    text = (tmp_path / "out" / "small-data.md").read_text()
    for title in (*HEADLINE.values(), *OTHERS.values()):
        assert f"| {title} |" in text
    claims, _ = text.split("## Other differences (exploratory)")
    assert "| **" not in claims  # whatever the differences: four of ten seeds are no claim
    for name in ("compute", "reliability"):
        assert f"(figures/small-data.{name}.png)" in text
        assert (tmp_path / "out" / "figures" / f"small-data.{name}.png").stat().st_size > 5000
    collect(run_folder, cells=table)
    assert len(read_cells(table)) == len(cells)  # seed 0 of Co-Mixup in another recipe's name
    assert report(cells).count("\n") > 20


def test_settings_are_compared_on_the_first_seeds(cell):
    more = [
        made_up(cell, arm, seed, error + seed, 5.0)
        for arm, error in (("comixup", 30.0), ("comixup-whole-batch", 20.0))
        for seed in range(5)
    ]
    (table,) = re.findall(r"### Settings.*?\n\n(.*?)\n\n", report(more), re.DOTALL)
    assert "| Co-Mixup | 3 | 60 | 31.00 ± 1.00 |" in table
    assert "| Co-Mixup, whole batch | 3 | 60 | 21.00 ± 1.00 |" in table


@pytest.mark.parametrize(("pair", "question"), REPLICATED.items())
def test_a_replication_is_told_by_itself(cell, pair, question):
    own, other = pair
    differences = [-1.0, -2.0, -3.0, -1.0, -3.0, 1.0, -1.0, 1.0, -1.0, 0.0]
    runs = [made_up(cell, other, seed, 30.0, 5.0) for seed in range(10)]
    runs += [made_up(cell, own, seed, 30.0 + d, 5.0) for seed, d in enumerate(differences)]
    text = report(runs)
    assert "| 0 to 4 | 5 | -2.00 [" in text
    assert "| 5 to 9 | 5 | +0.00 [" in text
    assert "| 0 to 9 | 10 | -1.00 [" in text
    assert f"### {question}" in text
    assert question not in report(runs[:10])


def test_variants_are_compared_with_what_they_vary_over_the_seeds_of_both(cell):
    runs = [made_up(cell, "comixup", seed, 30.0, 5.0) for seed in range(10)]
    runs += [made_up(cell, "comixup-no-clean", k, 38.0 + k, 4.0 + k) for k in range(3)]
    (table,) = re.findall(r"### Other differences.*?\n\n(.*?)\n\n", report(runs), re.DOTALL)
    (row,) = table.splitlines()[2:]
    assert row.startswith("| Co-Mixup, no clean loss | Co-Mixup | 3 | **+9.00 [+6.52, +11.48]** |")
    assert row.endswith("| +0.00 [-2.48, +2.48] |")
    assert "### Other differences" not in report(runs[:10])
    assert {arm for arms in EXPLORED.values() for arm in arms} >= set(OTHERS) - {
        other for _, other in REPLICATED
    }


def test_a_claim_needs_all_seeds_and_a_small_p(cell):
    noise = torch.rand(10, generator=torch.Generator().manual_seed(1)).tolist()
    cells = [
        made_up(cell, arm, seed, base + noise[seed] / 10 * sign, 5.0 + noise[seed])
        for arm, base, sign in (("vanilla", 35.0, 1), ("comixup", 32.0, -1))
        for seed in range(10)
    ]
    (row,) = [line for line in report(cells).splitlines() if line.startswith("| Co-Mixup | Van")]
    assert row.count("**") == 4  # the difference in error and its p; ECE has none
    fewer = report([c for c in cells if c.seed < 9])
    (row,) = [line for line in fewer.splitlines() if line.startswith("| Co-Mixup | Vanilla")]
    assert "**" not in row
    assert "< 0.001" in row


def answer_to(question, cells):
    """Returns what the report says of error and of ECE."""
    lines = report(cells).split("### Headline")[0].splitlines()
    (row,) = [line for line in lines if line.startswith(f"| {question}")]
    return [cell.strip() for cell in row.strip("| ").split("|")[1:]]


def test_questions_are_answered_by_the_tests_alone(cell):
    noise = torch.rand(10, generator=torch.Generator().manual_seed(2)).tolist()
    arms = {
        "vanilla": (35.0, 9.0),
        "comixup": (32.0, 3.0),
        "comixup-one-pass": (33.0, 3.0),
        "comixup-one-pass-double": (30.0, 5.0),
    }
    cells = [
        made_up(cell, arm, seed, error + noise[(seed + k) % 10] / 3, ece + noise[seed - k])
        for k, (arm, (error, ece)) in enumerate(arms.items())
        for seed in range(10)
    ]
    error, ece = answer_to("Does Co-Mixup beat vanilla training of as many", cells)
    assert error.startswith("**yes**: -3.")
    assert ece.startswith("**yes**: -6.")
    # The family has this pair in the other direction.
    error, ece = answer_to("Does one-pass Co-Mixup of twice the epochs beat the paper's", cells)
    assert error.startswith("**yes**: -2.")
    assert ece.startswith("**no, worse**: +2.")
    error, _ = answer_to("Does one-pass Co-Mixup beat vanilla", cells)
    assert error.startswith("exploratory, likely: -2.")
    assert answer_to("Does its saliency matter", cells) == ["open", "open"]
    error, _ = answer_to("Does Co-Mixup beat vanilla", [c for c in cells if c.seed < 9])
    assert error.startswith("open: -3.")
    assert error.endswith("9 of 10 seeds")


def test_a_difference_that_may_be_chance_is_not_shown(cell):
    noise = torch.rand(20, generator=torch.Generator().manual_seed(3)).tolist()
    cells = [
        made_up(cell, arm, seed, 30 + noise[10 * k + seed], 5 + noise[10 * k + seed])
        for k, arm in enumerate(("vanilla", "comixup"))
        for seed in range(10)
    ]
    assert all(
        answer.startswith("not shown: ") for answer in answer_to("Does Co-Mixup beat van", cells)
    )


def test_wrong_files_are_told(tmp_path):
    with pytest.raises(FileNotFoundError, match="`folder` must be that of a finished run"):
        read_run(tmp_path)
    (tmp_path / "cells.csv").write_text("recipe,method\na,b\n")
    with pytest.raises(ValueError, match="`path` must be a table of cells"):
        read_cells(tmp_path / "cells.csv")
    (tmp_path / "run.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match=r"run\.json must be a file that comixup wrote"):
        read_run(tmp_path)
