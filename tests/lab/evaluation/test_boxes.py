"""Ground-truth boxes: what files say, in pixels of what the model is shown; bad files rejected."""

import os

import numpy as np
import pytest
import torch
from PIL import Image

from comixup.lab._image_files import read_image
from comixup.lab.evaluation._boxes import (
    MAX_XML_BYTES,
    box_areas,
    check_boxes,
    read_boxes,
)


def picture(path, width=40, height=30, mode="RGB"):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (width, height)).save(path)
    return path


def annotation(*boxes):
    names = ("xmin", "ymin", "xmax", "ymax")
    objects = ""
    for box in boxes:
        corners = "".join(f"<{n}>{v}</{n}>" for n, v in zip(names, box, strict=True))
        objects += f"<object><name>thing</name><bndbox>{corners}</bndbox></object>"
    return f"<annotation><size><width>40</width></size>{objects}</annotation>"


def test_csv_with_several_boxes_an_image(tmp_path):
    files = [picture(tmp_path / name) for name in ("a.png", "b.png", "c.png")]
    source = tmp_path / "boxes.csv"
    source.write_text("file,x0,y0,x1,y1\na.png,1,2,3,4\nc.png,0,0,39,29\n\na.png,5,5,5,5\n")
    boxes = read_boxes(source, files)
    none = [0, 0, 0, 0]
    expected = [[[1, 2, 4, 5], [5, 5, 6, 6]], [none, none], [[0, 0, 40, 30], none]]
    assert boxes.tolist() == expected
    assert box_areas(boxes).tolist() == [[9, 1], [0, 0], [1200, 0]]


def test_boxes_are_cut_off_at_the_border(tmp_path):
    files = [picture(tmp_path / "a.png")]
    source = tmp_path / "boxes.csv"
    source.write_text("a.png,-5,-1,40,31\n")
    assert read_boxes(source, files).tolist() == [[[0, 0, 40, 30]]]


@pytest.mark.parametrize("stated", [(500, 375), (30, 40), (40, 31)])
def test_boxes_of_an_image_of_another_size_are_rejected(tmp_path, stated):
    files = [picture(tmp_path / "a.png"), picture(tmp_path / "b.png")]
    size = "<size><width>{}</width><height>{}</height></size>"
    plain = annotation((3, 4, 5, 6)).replace("<size><width>40</width></size>", size)
    (tmp_path / "a.xml").write_text(plain.format(40, 30))
    (tmp_path / "b.xml").write_text(plain.format(*stated))
    told = (
        rf"b\.xml must be of .* 40 x 30 pixels, the size of .*b\.png, got {stated[0]} x {stated[1]}"
    )
    with pytest.raises(ValueError, match=told):
        read_boxes(tmp_path, files)
    (tmp_path / "b.xml").write_text(plain.format(0, 0))  # some tools do not know it
    assert len(read_boxes(tmp_path, files)) == 2


def test_xml_beside_or_without_folders_of_classes(tmp_path):
    files = [picture(tmp_path / "val" / name / "1.png") for name in ("cat", "dog")]
    files.append(picture(tmp_path / "val" / "dog" / "2.png"))
    for name, box in (("cat/1", (0, 0, 1, 1)), ("dog/1", (2, 2, 3, 3)), ("2", (4, 4, 5, 5))):
        path = tmp_path / "notes" / f"{name}.xml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(annotation(box))
    names = [os.fsencode(file) for file in files]
    boxes = read_boxes(tmp_path / "notes", names)
    assert boxes.tolist() == [[[0, 0, 2, 2]], [[2, 2, 4, 4]], [[4, 4, 6, 6]]]


def test_an_image_does_not_get_the_boxes_of_its_namesake(tmp_path):
    files = [picture(tmp_path / name / "1.png") for name in ("cat", "dog")]
    source = tmp_path / "boxes.csv"
    source.write_text("dog/1.png,1,1,2,2\n")
    assert box_areas(read_boxes(source, files)).tolist() == [[0], [4]]
    source.write_text("x/dog/1.png,1,1,2,2\ny/dog/1.png,1,1,2,2\n")
    with pytest.raises(ValueError, match="several names"):
        read_boxes(source, files)


def test_boxes_outside_the_crop_are_none(tmp_path):
    files = [picture(tmp_path / "a.png", 400, 100), picture(tmp_path / "b.png", 400, 100)]
    source = tmp_path / "boxes.csv"
    source.write_text("a.png,0,0,20,99\nb.png,0,0,399,99\nb.png,200,50,200,50\n")
    first, second = read_boxes(source, files, image_size=28).tolist()
    assert first == [[0, 0, 0, 0]] * 2
    assert second[0] == [0, 0, 28, 28]
    assert box_areas(torch.tensor(second[1])) == 1  # a pixel stays one, however small it becomes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a.png,1,2,3\n", "line 1, must have file, x0, y0, x1, y1, got 4"),
        ("file,x0,y0,x1,y1\na.png,1,2,x,4\n", "line 2, must have four numbers"),
        ("a.png,1,2,nan,4\n", "must have four numbers"),
        ("a.png,3,2,1,4\n", "upper left to their lower right corner, got x from 3 to 1"),
        ("a.png,40,2,50,4\n", "within its 40 x 30 pixels"),
        ("z.png,1,2,3,4\n", "no box for any of the 1 images"),
        ("", "no box for any of the 1 images"),
    ],
)
def test_bad_csv(tmp_path, text, words):
    source = tmp_path / "boxes.csv"
    source.write_text(text)
    with pytest.raises(ValueError, match=words):
        read_boxes(source, [picture(tmp_path / "a.png")])


LAUGHS = "".join(f'<!ENTITY l{k} "{f"&l{k - 1};" * 10 if k else "ha"}">' for k in range(12))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"<!DOCTYPE a [{LAUGHS}]><annotation>&l11;</annotation>", "document type of its own"),
        (
            '<!DOCTYPE a [<!ENTITY f SYSTEM "boxes.txt">]><annotation>&f;</annotation>',
            "document type of its own",
        ),
        ("<annotation><object>", "cannot be read as XML"),
        ("", "cannot be read as XML"),
        ("<annotation><object/></annotation>", "must have four numbers"),
        (annotation((1, 2, 3, 1)), "upper left to their lower right"),
        (annotation(), "no box for any"),
        (f"<annotation>{' ' * MAX_XML_BYTES}</annotation>", "must have at most 1000000 bytes"),
    ],
)
def test_bad_xml(tmp_path, text, words):
    (tmp_path / "a.xml").write_text(text)
    with pytest.raises(ValueError, match=words):
        read_boxes(tmp_path, [picture(tmp_path / "a.png")])


def test_bad_places(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        read_boxes(tmp_path / "none.csv", [])
    (tmp_path / "a.png").write_text("no image")
    (tmp_path / "boxes.csv").write_text("a.png,1,2,3,4\n")
    with pytest.raises(ValueError, match=r"a\.png cannot be read as an image"):
        read_boxes(tmp_path / "boxes.csv", [tmp_path / "a.png"])
    with pytest.raises(ValueError, match="`image_size` must be a positive integer"):
        read_boxes(tmp_path / "boxes.csv", [tmp_path / "a.png"], 0)


def test_checks():
    boxes = torch.tensor([[[0, 0, 21, 20]], [[0, 0, 0, 0]]])
    check_boxes(boxes, 2, (20, 21))
    for wrong in (boxes.float(), boxes[:, 0]):
        with pytest.raises(ValueError, match="One box for each image is"):
            check_boxes(wrong, 2, (20, 21))
    for count in (1, 3):
        with pytest.raises(ValueError, match=f"each of the {count} images, got 2"):
            check_boxes(boxes, count, (20, 21))
    for wrong in (boxes, boxes - 1):
        with pytest.raises(ValueError, match="within the images' 20 x 20 pixels, got some up to 2"):
            check_boxes(wrong, 2, (20, 20))


@pytest.mark.parametrize("suffix", [".png", ".tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_boxes_are_turned_with_the_pictures_of_phones(tmp_path, orientation, suffix):
    pixels = np.zeros((30, 40, 3), np.uint8)
    pixels[4:9, 10:25] = 255
    exif = Image.Exif()
    exif[0x0112] = orientation
    path = tmp_path / f"phone{suffix}"
    Image.fromarray(pixels).save(path, exif=exif)
    seen = np.asarray(read_image(path))[..., 0] > 0
    rows, columns = np.flatnonzero(seen.any(1)), np.flatnonzero(seen.any(0))
    expected = [columns[0], rows[0], columns[-1] + 1, rows[-1] + 1]
    stated = "<size><width>40</width><height>30</height></size>"
    text = annotation((10, 4, 24, 8)).replace("<size><width>40</width></size>", stated)
    (tmp_path / "xml").mkdir()
    (tmp_path / "xml" / "phone.xml").write_text(text)
    found = read_boxes(tmp_path / "xml", [path])
    assert found.tolist() == [[[int(edge) for edge in expected]]]
