"""Numbers of processes are taken from the launcher, or must agree with it."""

import pytest

from comixup.lab.training import Hardware
from comixup.lab.training._processes import check_alone, launched

VARIABLES = (
    *("WORLD_SIZE", "LOCAL_WORLD_SIZE", "LOCAL_RANK", "RANK", "TORCHELASTIC_RUN_ID", "NODE_RANK"),
    *("MASTER_ADDR", "MASTER_PORT", "SLURM_NTASKS", "SLURM_NTASKS_PER_NODE", "SLURM_NNODES"),
    *("SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID", "SLURM_STEPID", "SLURM_JOB_NAME"),
)
TORCHRUN = {"TORCHELASTIC_RUN_ID": "1", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
TWO_MACHINES = TORCHRUN | {"WORLD_SIZE": "6", "LOCAL_WORLD_SIZE": "3"}
SRUN = {
    "SLURM_NTASKS": "4",
    "SLURM_NTASKS_PER_NODE": "2",
    "SLURM_NNODES": "2",
    "SLURM_STEP_NUM_TASKS": "4",
}
FABRIC = {"WORLD_SIZE": "2", "LOCAL_RANK": "1", "NODE_RANK": "0"}
"""What Lightning Fabric's own launcher gives its children."""


@pytest.fixture
def environment(monkeypatch):
    """Sets variables, in an environment that has no other launcher's."""

    def set_variables(variables):
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return set_variables


@pytest.mark.parametrize(
    ("variables", "given", "expected"),
    [
        ({}, {}, (1, 1)),
        ({}, {"devices": 3}, (3, 1)),
        (TORCHRUN, {}, (2, 1)),
        (TORCHRUN, {"devices": 2, "num_nodes": 1}, (2, 1)),
        (TORCHRUN | {"WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"}, {}, (1, 1)),
        (TWO_MACHINES, {}, (3, 2)),
        (SRUN, {}, (2, 2)),
        ({k: v for k, v in SRUN.items() if k != "SLURM_NTASKS_PER_NODE"}, {}, (2, 2)),
        (SRUN | {"SLURM_JOB_NAME": "bash"}, {}, (1, 1)),
        ({k: v for k, v in SRUN.items() if k != "SLURM_STEP_NUM_TASKS"}, {}, (1, 1)),
        (TORCHRUN | SRUN, {}, (2, 1)),
        (FABRIC, {}, (2, 1)),
        ({"WORLD_SIZE": "4", "LOCAL_RANK": "0"}, {"num_nodes": 2}, (2, 2)),
        ({"MASTER_ADDR": "a", "MASTER_PORT": "1", "NODE_RANK": "0"}, {"num_nodes": 2}, (1, 2)),
    ],
)
def test_numbers_follow_the_launcher(environment, variables, given, expected):
    environment(variables)
    hardware = Hardware(**given).resolved()
    assert (hardware.devices, hardware.num_nodes) == expected


@pytest.mark.parametrize(
    ("variables", "given", "message"),
    [
        (TORCHRUN, {"devices": 1}, "must be 2, the number of processes that torchrun has started"),
        (TORCHRUN, {"devices": 4}, "got 4 times 1"),
        (TWO_MACHINES, {"devices": 6}, "must be 6.* got 6 times 2"),
        (TWO_MACHINES | {"LOCAL_WORLD_SIZE": "4"}, {}, "Start as many on each machine"),
        (SRUN, {"devices": 4}, "srun has started"),
        (FABRIC, {"devices": 1}, "got 1 times 1"),
        (TORCHRUN | {"WORLD_SIZE": "two"}, {}, "`WORLD_SIZE` must be a positive integer"),
        ({}, {"num_nodes": 2}, "set MASTER_ADDR, MASTER_PORT, NODE_RANK"),
    ],
)
def test_numbers_that_contradict_the_launcher_are_rejected(environment, variables, given, message):
    environment(variables)
    with pytest.raises(ValueError, match=message):
        Hardware(**given).resolved()


def test_commands_for_one_process_say_so(environment):
    environment({})
    check_alone("evaluate")
    assert launched() is None
    environment(TORCHRUN | {"WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1"})
    check_alone("evaluate")
    environment(TORCHRUN)
    with pytest.raises(ValueError, match="`evaluate` must be one process, but torchrun has sta"):
        check_alone("evaluate")
