"""Reading trained networks: what fits, and an error message for all that does not."""

import io
import json
import pickle
import shutil
import struct
import tarfile
import zipfile

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from comixup.lab import models
from comixup.lab.data import load
from comixup.lab.evaluation._trained import load_trained
from comixup.lab.training import RECIPES, Hardware, train

SHAPE = (1, 28, 28)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a finished run."""
    out = tmp_path_factory.mktemp("runs")
    recipe = RECIPES["digits"].changed(model="lenet", epochs=1, images_per_class=2, batch_size=10)
    hardware = Hardware(accelerator="cpu", workers=0)
    train(recipe, method="cutmix", seeds=(3,), out=out, hardware=hardware)
    return out / "digits" / "cutmix" / "seed-3"


@pytest.fixture
def run(finished, tmp_path):
    """A copy of that folder, to be damaged."""
    return shutil.copytree(finished, tmp_path / "run")


@pytest.fixture
def lenet():
    torch.manual_seed(1)
    return models.build("lenet", 10, shape=SHAPE)


def rewritten(run, **changes):
    """Writes a run's weights anew with other metadata; None leaves a thing out."""
    file = run / "weights.safetensors"
    with safe_open(file, "pt") as content:
        about = content.metadata() | changes
    weights = load_file(file)
    save_file(weights, file, {key: value for key, value in about.items() if value is not None})
    return run


def test_a_run_comes_back_whole(finished):
    found = load_trained(finished)
    assert (found.name, found.method, found.seed, found.data) == ("lenet", "cutmix", 3, "digits")
    assert found.recipe["name"] == "digits"
    assert found.recipe["images_per_class"] == 2
    assert found.classes == tuple("0123456789")
    assert (found.num_classes, found.shape, found.path) == (10, SHAPE, finished)
    assert found.title == "cutmix, seed 3"
    assert not any(module.training for module in found.model.modules())
    saved = load_file(finished / "weights.safetensors")
    torch.testing.assert_close(dict(found.model.state_dict()), saved, rtol=0, atol=0)
    of_weights = load_trained(finished / "weights.safetensors")
    assert (of_weights.method, of_weights.seed) == ("cutmix", 3)


def test_weights_away_from_their_run_tell_what_they_can(run, tmp_path):
    alone = shutil.copy(run / "weights.safetensors", tmp_path / "mine.safetensors")
    found = load_trained(alone)
    assert (found.name, found.num_classes, found.data) == ("lenet", 10, "digits")
    assert (found.method, found.seed, found.recipe) == (None, None, None)
    assert found.title == "mine.safetensors"
    (run / "run.json").unlink()
    assert load_trained(run).method is None


@pytest.mark.parametrize(
    ("wrap", "suffix"),
    [("bare", ".pth"), ("state_dict", ".pt"), ("model", ".pt"), ("module.", ".pt")],
)
def test_state_dicts(lenet, tmp_path, suffix, wrap):
    weights = dict(lenet.state_dict())
    content = {
        "bare": weights,
        "state_dict": {"state_dict": weights, "epoch": 3},
        "model": {"model": weights, "epoch": 3},
        "module.": {f"module.{name}": tensor for name, tensor in weights.items()},
    }[wrap]
    file = tmp_path / f"weights{suffix}"
    torch.save(content, file)
    found = load_trained(file, model="lenet", num_classes=10, shape=SHAPE)
    torch.testing.assert_close(dict(found.model.state_dict()), weights, rtol=0, atol=0)
    assert found.classes == ()


def test_half_precision_weights_are_read(lenet, tmp_path):
    file = tmp_path / "half.safetensors"
    save_file({name: tensor.half() for name, tensor in lenet.state_dict().items()}, file)
    found = load_trained(file, model="lenet", num_classes=10, shape=SHAPE)
    assert {weight.dtype for weight in found.model.parameters()} == {torch.float32}
    images = torch.rand(2, *SHAPE)
    torch.testing.assert_close(found.model(images), lenet.eval()(images), rtol=0, atol=0.01)


# ---- Data ---------------------------------------------------------------------------------------


def test_data_with_other_classes(finished):
    data = load("digits")
    trained = load_trained(finished, num_classes=data.num_classes, shape=data.shape)
    trained.check_data(data)
    object.__setattr__(data, "classes", tuple("0123456798"))
    with pytest.raises(ValueError, match="class 8 is '9' in digits and '8' there"):
        trained.check_data(data)
    object.__setattr__(data, "classes", tuple("01234"))
    with pytest.raises(ValueError, match=r"must have 10 classes.*got digits with 5"):
        trained.check_data(data)


def test_heads_of_another_size(finished, lenet, tmp_path):
    with pytest.raises(ValueError, match="has 10 where the data have 100 classes"):
        load_trained(finished, num_classes=100)
    torch.save(lenet.state_dict(), tmp_path / "w.pt")
    with pytest.raises(ValueError, match="no layer with 17 outputs where the data have 17"):
        load_trained(tmp_path / "w.pt", model="lenet", num_classes=17, shape=SHAPE)


# ---- Bad input ----------------------------------------------------------------------------------


def test_what_a_file_does_not_say_must_be_given(run, lenet, tmp_path):
    file = tmp_path / "w.pt"
    torch.save(lenet.state_dict(), file)
    with pytest.raises(ValueError, match=r"`model` must be given for .*w.pt"):
        load_trained(file)
    with pytest.raises(ValueError, match=r"`num_classes` must be given for .*w.pt"):
        load_trained(file, model="lenet")
    with pytest.raises(ValueError, match=r"`shape` must be given for .*w.pt"):
        load_trained(file, model="lenet", num_classes=10)


def test_weights_of_another_network(finished, tmp_path):
    with pytest.raises(ValueError, match=r"weights of the network small, but.*do not fit"):
        load_trained(finished, model="small")
    more = load_file(finished / "weights.safetensors") | {"extra": torch.zeros(1)}
    save_file(more, tmp_path / "more.safetensors")
    with pytest.raises(ValueError, match=r"do not fit it.*extra"):
        load_trained(tmp_path / "more.safetensors", model="lenet", num_classes=10, shape=SHAPE)
    with pytest.raises(ValueError, match="`name` must be of a known network, got 'lennet'"):
        load_trained(finished, model="lennet")


def test_missing_files(run, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no .*nowhere"):
        load_trained(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"holds no run: there is no weights.safetensors"):
        load_trained(tmp_path / "empty")
    (run / "weights.safetensors").unlink()
    with pytest.raises(ValueError, match=r"a run that is not finished.*Finish it"):
        load_trained(run)
    (tmp_path / "a.txt").write_text("hello")
    with pytest.raises(ValueError, match=r"end in .safetensors, .pt or .pth, got .*a.txt"):
        load_trained(tmp_path / "a.txt")


@pytest.mark.parametrize(
    "content", [b"", b"\xff" * 100, b"\x00" * 8, b"\xff\xff\xff\xff\xff\xff\xff\x7f{}"]
)
@pytest.mark.parametrize("suffix", [".safetensors", ".pt"])
def test_damaged_files(tmp_path, content, suffix):
    file = tmp_path / f"w{suffix}"
    file.write_bytes(content)
    with pytest.raises(ValueError, match=r"`path` must .* is damaged or"):
        load_trained(file, model="lenet", num_classes=10, shape=SHAPE)


class Hostile:
    """Would write a file if it were loaded as pickles are."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


@pytest.mark.parametrize("writer", ["torch", "pickle"])
def test_files_that_would_run_code(tmp_path, writer):
    trap, file = tmp_path / "trap", tmp_path / "w.pt"
    if writer == "torch":
        torch.save({"weights": Hostile(trap)}, file)
    else:
        file.write_bytes(pickle.dumps({"weights": Hostile(trap)}))
    with pytest.raises(ValueError, match="holds other objects, which are unsafe to load"):
        load_trained(file, model="lenet", num_classes=10, shape=SHAPE)
    assert not trap.exists()


def test_tar_archives_are_not_opened(tmp_path):
    # torch before 2.6 ran what is in them whatever it was asked for.
    canary = tmp_path / "canary"
    with tarfile.open(tmp_path / "x.pt", "w") as archive:
        for name in ("storages", "tensors", "pickle"):
            content = pickle.dumps(Hostile(canary))
            record = tarfile.TarInfo(name)
            record.size = len(content)
            archive.addfile(record, io.BytesIO(content))
    with pytest.raises(ValueError, match="it is a tar archive"):
        load_trained(tmp_path / "x.pt", model="lenet", num_classes=10, shape=SHAPE)
    assert not canary.exists()


def test_archives_that_unpack_to_more_than_they_are(tmp_path):
    plain, packed = tmp_path / "plain.pt", tmp_path / "packed.pt"
    torch.save({"weight": torch.zeros(10**6)}, plain)
    with (
        zipfile.ZipFile(plain) as archive,
        zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as copy,
    ):
        for name in archive.namelist():
            copy.writestr(name, archive.read(name))
    with pytest.raises(ValueError, match="its records are larger than the file"):
        load_trained(packed, model="lenet", num_classes=10, shape=SHAPE)


def test_tensors_that_are_larger_than_their_file(lenet, tmp_path):
    weights = lenet.state_dict()
    first = next(iter(weights))
    weights[first] = torch.zeros(1, dtype=torch.float16).expand(10**6, 10**6)
    torch.save(weights, tmp_path / "x.pt")
    with pytest.raises(ValueError, match=rf"{first} must be .* is float16 of shape \(1000000,"):
        load_trained(tmp_path / "x.pt", model="lenet", num_classes=10, shape=SHAPE)


@pytest.mark.parametrize(
    "about",
    [
        {"model": "wrn28-10", "num_classes": "999999999", "shape": "[3, 32, 32]"},
        {"model": "preactresnet34", "width": "4096", "num_classes": "10", "shape": "[3, 32, 32]"},
        {"model": "lenet", "num_classes": "10", "shape": "[4096, 4096, 4096]"},
        {"model": "timm:vit_giant_patch14_dinov2", "num_classes": "10", "shape": "[3, 32, 32]"},
    ],
    ids=lambda about: about["model"],
)
def test_a_network_that_would_fill_the_memory_is_not_built_for_a_file_without_weights(
    tmp_path, about
):
    # A tensor with as many rows as there are classes, and no columns, takes no space.
    tensor = {"dtype": "F32", "shape": [int(about["num_classes"]), 0], "data_offsets": [0, 0]}
    header = json.dumps({"__metadata__": about, "weight": tensor}).encode()
    (tmp_path / "x.safetensors").write_bytes(struct.pack("<Q", len(header)) + header)
    with pytest.raises(ValueError, match=r"must be \w+ of shape .* but is absent"):
        load_trained(tmp_path / "x.safetensors")


@pytest.mark.parametrize("content", [[1, 2], {"a": 3}, torch.zeros(3), {1: torch.zeros(2)}])
def test_files_of_other_things(tmp_path, content):
    torch.save(content, tmp_path / "w.pt")
    with pytest.raises(ValueError, match="must hold a state dict"):
        load_trained(tmp_path / "w.pt", model="lenet", num_classes=10, shape=SHAPE)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_classes", "ten"),
        ("num_classes", "-5"),
        ("num_classes", "9" * 5000),
        ("shape", "[1, 28]"),
        ("shape", "[1, 28, 1000000000]"),
        ("shape", '[1, 28, "28"]'),
        ("shape", "[" * 100_000),
        ("classes", '["a"]'),
        ("classes", "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"),
    ],
)
def test_hostile_metadata(run, name, value):
    with pytest.raises(ValueError, match=f"{name} of .*weights.safetensors is") as caught:
        load_trained(rewritten(run, **{name: value}))
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "metadata",
    ["[]", "{", json.dumps({"method": "a"}), "[" * 100_000],
)
def test_a_damaged_story(run, metadata):
    (run / "run.json").write_text(metadata)
    with pytest.raises(ValueError, match=r"run.json is damaged"):
        load_trained(run)


@pytest.mark.parametrize("change", [{"method": 3}, {"seed": "0"}, {"recipe": []}])
def test_a_story_of_other_things(run, change):
    told = json.loads((run / "run.json").read_text()) | change
    (run / "run.json").write_text(json.dumps(told))
    with pytest.raises(ValueError, match=rf"{next(iter(change))} of .*run.json is"):
        load_trained(run)
