"""What the kernel says of arguments that do not fit; test_kernel_fuzz.py tries the unthinkable."""

import numpy as np

from cases import each_case
from comixup import _native
from rejections import INF, NAN, rejects


def whole(*shape, fill=0, dtype=np.int32):
    return np.full(shape, fill, dtype=dtype)


def weights(beta=0.1, gamma=0.1, eta=0.0, clip="soft", level=1.0, smoothness="squared"):
    return {"weights": [(beta, gamma, eta, clip, level, smoothness)]}


FIT = {
    "minimize": lambda: {
        "unary": np.zeros((2, 4)),
        "pairwise": np.zeros((2, 2)),
        "grid": [2, 2],
        "start": whole(4),
        "labels": whole(4),
    },
    "solve": lambda: {
        "costs": [np.zeros((2, 4))],
        "compatibilities": [np.eye(2)],
        **weights(),
        "starts": [whole(1, 3, 4)],
        "grid": [2, 2],
        "sweeps": 2,
        "levels": 1,
        "resolve": False,
        "threads": 1,
        "sources": whole(3, 1, 2, 2, dtype=np.int64),
        "objective_values": np.zeros((1, 2)),
    },
    "puzzle_masks": lambda: {
        "unary": np.zeros((1, 3, 4)),
        "weights": np.zeros((1, 4)),
        "grid": [2, 2],
        "threads": 1,
        "labels": whole(1, 4),
    },
    "puzzle_transport": lambda: {
        "saliency": np.zeros((1, 4), dtype=np.float32),
        "granted": whole(1, 4, dtype=np.uint8),
        "grid": [2, 2],
        "eps": 0.8,
        "threads": 1,
        "block_at": whole(1, 4),
    },
    "mix_blocks": lambda: {
        "images": np.zeros((2, 8)),
        "sources": whole(3, 2, 4, dtype=np.int64),
        "row_cell": np.array([0, 2]),
        "column_begin": np.array([0, 2, 4]),
        "threads": 1,
        "out": np.zeros((3, 8)),
    },
    "write_maps": lambda: {
        "gradients": np.zeros((4, 3, 63), dtype=np.float32),
        "numbers": whole(4, 63, dtype=np.uint8),
        "channels_last": False,
        "rows": np.arange(4),
        "maps": whole(9, 6, dtype=np.uint8),
        "momentum": 0.0,
        "threads": 1,
        "next": whole(9, 6, dtype=np.uint8),
    },
}
"""Arguments of each function that fit."""

CASES = {
    "minimize": [
        ({"unary": np.zeros((0, 4))}, "unary must be"),
        ({"unary": np.zeros((2, 5))}, "unary must be"),
        ({"unary": np.full((2, 4), NAN)}, "unary must be finite"),
        ({"unary": np.full((2, 4), -1e300)}, "unary must be finite and at most"),
        ({"pairwise": np.zeros((2, 3))}, "pairwise must be"),
        ({"pairwise": np.full((2, 2), -1.0)}, "pairwise must be finite, not negative"),
        ({"grid": []}, "grid must have 1 to 3 sides"),
        ({"grid": [-2, -2]}, "grid sides must be positive"),
        ({"start": whole(3)}, "start must be"),
        ({"start": whole(4, fill=2)}, "start must be labels"),
        ({"start": whole(4, fill=-1)}, "start must be labels"),
        ({"labels": whole(5)}, "labels must be"),
    ],
    "solve": [
        ({"costs": []}, "every problem needs"),
        ({"costs": [np.zeros((2, 5))]}, "costs must be"),
        ({"costs": [np.zeros((0, 4))], "compatibilities": [np.eye(0)]}, "must not be empty"),
        ({"costs": [np.full((2, 4), -INF)]}, "costs must be finite"),
        ({"costs": [np.full((2, 4), 1e300)]}, "costs must be finite and at most"),
        ({"compatibilities": [np.eye(3)]}, "compatibility must be"),
        ({"compatibilities": [np.full((2, 2), NAN)]}, "compatibility must be finite"),
        ({"compatibilities": [np.full((2, 2), -1.0)]}, "compatibility must be finite, not neg"),
        (weights(beta=NAN), "weights must be numbers"),
        (weights(gamma=-0.1), "weights must be numbers"),
        (weights(eta=INF), "weights must be numbers"),
        (weights(level=NAN), "the clip level must be"),
        (weights(clip="firm"), "clip must be soft, hard or none"),
        (weights(smoothness="cubic"), "smoothness must be squared"),
        ({"grid": [2**16, 2**16]}, "grid must have at most"),
        ({"starts": [whole(1, 3, 5)]}, "starts must be"),
        ({"starts": [whole(1, 3, 4, fill=2)]}, "starts must be inputs"),
        ({"sweeps": 0}, "counts must be positive"),
        ({"levels": 17}, "levels must be at most 16"),
        ({"threads": 1025}, "threads must be from 1 to 1024"),
        ({"sources": whole(2, 1, 2, 2, dtype=np.int64)}, "sources' size"),
        ({"objective_values": np.zeros((1, 3))}, "objective_values' shape"),
    ],
    "puzzle_masks": [
        ({"unary": np.zeros((1, 1, 4))}, "unary must be"),
        ({"unary": np.zeros((1, 18, 4))}, "unary must be .* with L from 1 to 16"),
        ({"unary": np.full((1, 3, 4), -INF)}, "unary must be finite"),
        ({"unary": -np.square([[[-1.0], [0.0], [1.0]]]).repeat(4, 2)}, "unary must be convex"),
        ({"weights": np.zeros((1, 5))}, "weights must be"),
        ({"weights": np.full((1, 4), -1.0)}, "weights must be finite and not negative"),
        ({"weights": np.full((1, 4), 1e300)}, "weights must be .* at most"),
        ({"threads": 0}, "threads must be from 1 to 1024"),
        ({"labels": whole(2, 4)}, "labels must be"),
    ],
    "puzzle_transport": [
        ({"saliency": np.zeros((1, 5), dtype=np.float32)}, "saliency must be"),
        ({"saliency": np.full((1, 4), NAN, dtype=np.float32)}, "saliency must be finite"),
        ({"granted": whole(2, 4, dtype=np.uint8)}, "granted must be"),
        ({"eps": INF}, "eps must be a number"),
        ({"eps": -1.0}, "eps must be a number"),
        ({"block_at": whole(1, 3)}, "block_at must be"),
    ],
    "mix_blocks": [
        ({"sources": whole(3, 2, 4, fill=2, dtype=np.int64)}, "sources must be inputs"),
        ({"sources": whole(3, 2, 4, fill=2**63 - 1, dtype=np.int64)}, "sources must be inputs"),
        ({"sources": whole(2, 2, 4, dtype=np.int64)}, "sources must be"),
        ({"row_cell": np.array([0, 3])}, "row_cell must be cells"),
        ({"row_cell": np.array([0, -1])}, "row_cell must be cells"),
        ({"row_cell": np.array([0, 1, 2])}, "rows must make up an image"),
        ({"column_begin": np.array([0, 4, 2])}, "column_begin must rise"),
        # 2^61 eight-byte numbers, and again as many: their bytes add up to 0.
        ({"column_begin": np.array([0, 2**61, 2**62])}, "column_begin must rise"),
        ({"out": np.zeros((3, 9))}, "images"),
        ({"out": np.zeros((3, 8), dtype=np.float32)}, "out must have the images' dtype"),
    ],
    "write_maps": [
        ({"numbers": whole(4, 62, dtype=np.uint8)}, "numbers must be"),
        ({"rows": np.array([0, 1, 2])}, "rows must be"),
        ({"rows": np.array([0, 1, 2, 9])}, "rows must be below"),
        ({"rows": np.array([0, 1, -1, 2])}, "rows must be below"),
        ({"next": whole(9, 5, dtype=np.uint8)}, "next must be"),
        ({"maps": whole(9, 255, dtype=np.uint8)}, "1 to 254 cells"),
        ({"momentum": 2.0}, "momentum must be a number from 0 to 1"),
        ({"momentum": NAN}, "momentum must be a number from 0 to 1"),
    ],
}


@each_case(
    ("name", "change", "message"),
    [(name, *case) for name, cases in CASES.items() for case in cases],
    ids=lambda case: f"{case[0]}, {list(case[1])}, {case[2]}",
)
def test_arguments_that_do_not_fit(name, change, message):
    function = getattr(_native, name)
    function(**FIT[name]())
    with rejects(ValueError, message):
        function(**FIT[name]() | change)


WRITTEN = [("minimize", "labels"), ("solve", "sources"), ("solve", "objective_values")]
WRITTEN += [("mix_blocks", "out"), ("write_maps", "next")]


@each_case(("name", "key"), WRITTEN, ids=str)
def test_what_is_computed_is_not_written_to_a_copy(name, key):
    # An array that had to be converted would receive nothing.
    array = FIT[name]()[key]
    strided = np.stack([array, array], -1)[..., 0]
    for other in (array.astype(np.float16), strided):
        with rejects((TypeError, ValueError), f"incompatible function arguments|{key}"):
            getattr(_native, name)(**FIT[name]() | {key: other})


def test_images_are_not_written_over():
    memory = np.arange(40.0)
    given = FIT["mix_blocks"]() | {"images": memory[:16].reshape(2, 8)}
    with rejects(ValueError, "out must not share memory with the images"):
        _native.mix_blocks(**given | {"out": memory[8:32].reshape(3, 8)})
    _native.mix_blocks(**given | {"out": memory[16:].reshape(3, 8)})
