import pytest
import torch

from comixup.lab.data import load
from data_files import smooth_picture


@pytest.fixture
def table(tmp_path):
    """Writes a CSV file beside ten images, a.png to j.png; returns its path."""
    for number, letter in enumerate("abcdefghij"):
        smooth_picture(12, 10, seed=number).save(tmp_path / f"{letter}.png")

    def write(*lines):
        path = tmp_path / "labels.csv"
        path.write_text("\n".join(lines) + "\n")
        return path

    return write


def test_numbers_are_sorted_by_value_and_those_of_equal_value_by_letter(table):
    # Else the order of a set would decide, which is another in every process.
    names = ("00001", "0001", "001", "01", "1", "002", "02", "2", "10")
    path = table("path,labels,split", f"a.png,{';'.join(names[::-1])},train", "b.png,1,test")
    assert load("folder", path).classes == names


@pytest.mark.parametrize("name", ["ID", ""])
def test_a_column_that_numbers_the_rows_is_no_class(table, name):
    rows = ("0,a.png,1,0", "1,b.png,0,1", "0,c.png,1,0", "1,d.png,0,1")
    data = load("folder", table(f"{name},path,cat,dog", *rows))
    assert data.classes == ("cat", "dog")
    (note,) = data.notes
    assert note.endswith(f"is no class: column {name or 'without a name'}.")


@pytest.mark.parametrize(
    "lines",
    [
        ("path,labels,split", "a.png,cat;dog,train", "b.png,dog,train", "c.png,|cat,test"),
        (
            "path,cat,dog,split",
            "a.png,1,1,train",
            "b.png,0,1,train",
            "c.png,1,0,test",
        ),
    ],
    ids=["separated", "columns"],
)
def test_any_number_of_labels(table, lines):
    data = load("folder", table(*lines))
    assert data.multi_label
    assert data.classes == ("cat", "dog")
    torch.testing.assert_close(data.train.targets, torch.tensor([[1.0, 1.0], [0.0, 1.0]]))
    images, targets = next(data.test.loader(2, image_size=8).epoch(0))
    assert images.shape == (1, 3, 8, 8)
    torch.testing.assert_close(targets, torch.tensor([[1.0, 0.0]]))
    for choice in ({"images_per_class": 1}, {"classes": ["cat"]}):
        (name,) = choice
        with pytest.raises(ValueError, match=f"`{name}` must be left out for images with any"):
            load("folder", table(*lines), **choice)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["path,label", "a.png,cat", "z.png,dog"], "line 3, must name an image file"),
        (["path,label", "a.png,cat", "b.png,"], "line 3, must have a label"),
        (["path,label", "a.png,cat", "a.png,dog"], "one line for each image"),
        (["path,label", "a.png,cat", "b.png,cat"], "two classes at least"),
        (["path,label"], "must have lines with images"),
        (["name,label", "a.png,cat"], "must have a column path"),
        (
            ["path,label,split", "a.png,cat,later", "b.png,ox,train"],
            "must say train, val or test, got 'later'",
        ),
        (["path,label,split", "a.png,cat,test", "b.png,dog,test"], "images to train on"),
        (["path,label,split", "a.png,cat,train", "b.png,dog,test"], "of class 'dog' to train on"),
        (["path,cat,dog", "a.png,1,2"], "0 or 1 in column dog, got '2'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_wrong_in_a_table_is_named(table, lines, message):
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        load("folder", table(*lines))


def test_paths_labels_and_splits(table):
    lines = [f"{letter}.png,{'cat' if letter in 'aceg' else 'ant'},train" for letter in "abcdefgh"]
    data = load("folder", table("path,label,split", *lines, "i.png,ant,val", "j.png,cat,test"))
    assert data.classes == ("ant", "cat")
    assert [path.name for path in data.train.paths] == [f"{letter}.png" for letter in "abcdefgh"]
    assert data.train.targets.tolist() == [1, 0, 1, 0, 1, 0, 1, 0]
    assert [path.name for path in data.validation.paths] == ["i.png"]
    assert [path.name for path in data.test.paths] == ["j.png"]
