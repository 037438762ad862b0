"""The comparison on small data: its tables, claims, answers and figures, from its runs."""

import dataclasses
import json
import re
import shutil
import statistics
from pathlib import Path

import pytest
import torch

from comixup.lab import paper
from comixup.lab.evaluation import holm, paired_test, read_runs, write_runs
from small_data import study
from small_data.arms import (
    EXPLORED,
    HEADLINE,
    LENGTHS,
    OTHERS,
    RECIPE,
    REPLICATED,
    seeds_of_arms,
)
from small_data.contrasts import contrasts
from small_data.tables import report
from small_runs import recipe, train_here, write_images

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("drawn")


@pytest.fixture(scope="module")
def run():
    """A run of the comparison, as it is committed."""
    return read_runs(ROOT / "docs" / "results" / "small-data.csv")[0]


def made_up(run, method, seed, error, ece, passes=60.0):
    numbers = {**run.metrics, "error": error, "ece": ece, "passes": passes}
    return dataclasses.replace(run, method=method, seed=seed, metrics=numbers)


@pytest.fixture(scope="module")
def runs(run):
    """Runs of all arms, with errors that tell arm and seed."""
    arms = dict.fromkeys([*HEADLINE, *OTHERS, *(arm for arms in LENGTHS.values() for arm in arms)])
    spread = torch.Generator().manual_seed(0)
    return [
        made_up(run, arm, seed, 30 + 0.5 * k + noise, 10 - 0.2 * k + noise / 2, 30.0 + k)
        for k, arm in enumerate(arms)
        for seed, noise in enumerate(torch.rand(4, generator=spread).tolist())
    ]


def test_seeds_are_those_of_the_rules():
    seeds = seeds_of_arms()
    assert (seeds["comixup"], seeds["input"]) == (range(10), range(5))
    assert seeds["vanilla-half"] == range(3)
    assert sum(map(len, seeds.values())) == 192


def test_the_primary_family_is_tested_together(runs):
    found = contrasts(runs)
    others = len(HEADLINE) - 1
    assert len(found) == 2 * (others + others - 1)
    assert [c.holm for c in found] == pytest.approx(holm([c.p for c in found]))
    first = found[0]
    assert (first.reference, first.arm, first.metric) == ("comixup", "vanilla", "error")
    mine, theirs = (
        {c.seed: c.metrics["error"] for c in runs if c.method == arm}
        for arm in ("comixup", "vanilla")
    )
    differences = [mine[seed] - theirs[seed] for seed in mine]
    assert first.difference == pytest.approx(statistics.fmean(differences))
    assert first.p == pytest.approx(paired_test(differences))


def test_tests_without_runs_count_too(runs):
    whole = {(c.reference, c.arm, c.metric): c for c in contrasts(runs)}
    fewer = contrasts([c for c in runs if c.method not in ("puzzlemix", "cutmix-clean")])
    assert 0 < len(fewer) < len(whole)
    for found in fewer:
        before = whole[found.reference, found.arm, found.metric]
        assert found.p == before.p
        assert found.holm >= before.holm
    smallest = min(fewer, key=lambda c: c.p)
    assert smallest.holm == pytest.approx(min(1, len(whole) * smallest.p))


def test_the_report_is_made_from_the_table_alone(runs, tmp_path):
    table = tmp_path / "runs.csv"
    write_runs(runs, table)
    study.write_report(table, tmp_path / "out")
    text = (tmp_path / "out" / "small-data.md").read_text()
    for title in (*HEADLINE.values(), *OTHERS.values()):
        assert f"| {title} |" in text
    claims, _ = text.split("## Other differences (exploratory)")
    assert "| **" not in claims  # whatever the differences: four of ten seeds are no claim
    for name in ("compute", "reliability"):
        assert f"(figures/small-data.{name}.png)" in text
        assert (tmp_path / "out" / "figures" / f"small-data.{name}.png").stat().st_size > 5000
    assert report(runs).count("\n") > 20


def test_what_was_trained_is_what_is_reported(tmp_path, monkeypatch):
    """A run that is trained anew, however bad, is in the table and in the report."""
    data = write_images(tmp_path / "images")
    chosen = recipe(images_per_class=3, validation=0.4, validation_seed=0)
    here = train_here(data, tmp_path / "trained", "comixup", chosen)

    def train(jobs, workspace, cluster):
        assert [job.key for job in jobs] == [f"runs/{RECIPE}/comixup/seed-0"]
        folder = workspace.run_folder(paper.Run(RECIPE, "comixup", 0))
        shutil.copytree(here, folder)
        for name, change in (
            # Without its variant: it stands for a run with the recipe's own settings.
            (
                "run.json",
                lambda found: found.pop("variant") and found["recipe"].update(name=RECIPE),
            ),
            ("result.json", lambda found: found.update(error=99.0)),
        ):
            content = json.loads((folder / name).read_text())
            change(content)
            (folder / name).write_text(json.dumps(content))
        return []

    monkeypatch.setattr(paper, "run_jobs", train)
    table = tmp_path / "runs.csv"
    committed = read_runs(ROOT / "docs" / "results" / "small-data.csv")
    write_runs([run for run in committed if run.key != (RECIPE, "comixup", 0)], table)
    study.run(table, tmp_path / "out")
    assert len(read_runs(table)) == len(committed)
    study.write_report(table, tmp_path)
    errors = [run.metrics["error"] for run in committed if run.method == "comixup" and run.seed]
    mean = statistics.fmean([99.0, *errors[:9]])
    assert f"| Co-Mixup | 10 | 6 | {mean:.2f} ±" in (tmp_path / "small-data.md").read_text()
    assert study.missing(table) == []


def test_settings_are_compared_on_the_first_seeds(run):
    more = [
        made_up(run, arm, seed, error + seed, 5.0)
        for arm, error in (("comixup", 30.0), ("comixup-whole-batch", 20.0))
        for seed in range(5)
    ]
    (table,) = re.findall(r"### Settings.*?\n\n(.*?)\n\n", report(more), re.DOTALL)
    assert "| Co-Mixup | 3 | 60 | 31.00 ± 1.00 |" in table
    assert "| Co-Mixup, whole batch | 3 | 60 | 21.00 ± 1.00 |" in table


@pytest.mark.parametrize(("pair", "question"), REPLICATED.items())
def test_a_replication_is_told_by_itself(run, pair, question):
    own, other = pair
    differences = [-1.0, -2.0, -3.0, -1.0, -3.0, 1.0, -1.0, 1.0, -1.0, 0.0]
    runs = [made_up(run, other, seed, 30.0, 5.0) for seed in range(10)]
    runs += [made_up(run, own, seed, 30.0 + d, 5.0) for seed, d in enumerate(differences)]
    text = report(runs)
    assert "| 0 to 4 | 5 | -2.00 [" in text
    assert "| 5 to 9 | 5 | +0.00 [" in text
    assert "| 0 to 9 | 10 | -1.00 [" in text
    assert f"### {question}" in text
    assert question not in report(runs[:10])


def test_variants_are_compared_with_what_they_vary_over_the_seeds_of_both(run):
    runs = [made_up(run, "comixup", seed, 30.0, 5.0) for seed in range(10)]
    runs += [made_up(run, "comixup-no-clean", k, 38.0 + k, 4.0 + k) for k in range(3)]
    (table,) = re.findall(r"### Other differences.*?\n\n(.*?)\n\n", report(runs), re.DOTALL)
    (row,) = table.splitlines()[2:]
    assert row.startswith("| Co-Mixup, no clean loss | Co-Mixup | 3 | **+9.00 [+6.52, +11.48]** |")
    assert row.endswith("| +0.00 [-2.48, +2.48] |")
    assert "### Other differences" not in report(runs[:10])
    assert {arm for arms in EXPLORED.values() for arm in arms} >= set(OTHERS) - {
        other for _, other in REPLICATED
    }


def test_a_claim_needs_all_seeds_and_a_small_p(run):
    noise = torch.rand(10, generator=torch.Generator().manual_seed(1)).tolist()
    runs = [
        made_up(run, arm, seed, base + noise[seed] / 10 * sign, 5.0 + noise[seed])
        for arm, base, sign in (("vanilla", 35.0, 1), ("comixup", 32.0, -1))
        for seed in range(10)
    ]
    (row,) = [line for line in report(runs).splitlines() if line.startswith("| Co-Mixup | Van")]
    assert row.count("**") == 4  # the difference in error and its p; ECE has none
    fewer = report([c for c in runs if c.seed < 9])
    (row,) = [line for line in fewer.splitlines() if line.startswith("| Co-Mixup | Vanilla")]
    assert "**" not in row
    assert "< 0.001" in row


def answer_to(question, runs):
    """Returns what the report says of error and of ECE."""
    lines = report(runs).split("### Headline")[0].splitlines()
    (row,) = [line for line in lines if line.startswith(f"| {question}")]
    return [run.strip() for run in row.strip("| ").split("|")[1:]]


def test_questions_are_answered_by_the_tests_alone(run):
    noise = torch.rand(10, generator=torch.Generator().manual_seed(2)).tolist()
    arms = {
        "vanilla": (35.0, 9.0),
        "comixup": (32.0, 3.0),
        "comixup-one-pass": (33.0, 3.0),
        "comixup-one-pass-double": (30.0, 5.0),
    }
    runs = [
        made_up(run, arm, seed, error + noise[(seed + k) % 10] / 3, ece + noise[seed - k])
        for k, (arm, (error, ece)) in enumerate(arms.items())
        for seed in range(10)
    ]
    error, ece = answer_to("Does Co-Mixup beat vanilla training of as many", runs)
    assert error.startswith("**yes**: -3.")
    assert ece.startswith("**yes**: -6.")
    # The family has this pair in the other direction.
    error, ece = answer_to("Does one-pass Co-Mixup of twice the epochs beat the paper's", runs)
    assert error.startswith("**yes**: -2.")
    assert ece.startswith("**no, worse**: +2.")
    error, _ = answer_to("Does one-pass Co-Mixup beat vanilla", runs)
    assert error.startswith("exploratory, likely: -2.")
    assert answer_to("Does its saliency matter", runs) == ["open", "open"]
    error, _ = answer_to("Does Co-Mixup beat vanilla", [c for c in runs if c.seed < 9])
    assert error.startswith("open: -3.")
    assert error.endswith("9 of 10 seeds")


def test_a_difference_that_may_be_chance_is_not_shown(run):
    noise = torch.rand(20, generator=torch.Generator().manual_seed(3)).tolist()
    runs = [
        made_up(run, arm, seed, 30 + noise[10 * k + seed], 5 + noise[10 * k + seed])
        for k, arm in enumerate(("vanilla", "comixup"))
        for seed in range(10)
    ]
    assert all(
        answer.startswith("not shown: ") for answer in answer_to("Does Co-Mixup beat van", runs)
    )
