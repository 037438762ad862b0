"""The explorer's page as an object, and its server; without a browser."""

import gc
import json
import os
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor

import pytest

pytestmark = [
    pytest.mark.slow,  # gradio alone takes seconds to import
    # It leaves event loops to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

gradio = pytest.importorskip(
    "gradio", reason="gradio is not installed: pip install 'comixup[explorer]', or make browser"
)

from comixup.lab import explorer  # noqa: E402
from comixup.lab.explorer import Settings  # noqa: E402
from comixup.lab.explorer._explore import Workbench  # noqa: E402
from comixup.lab.explorer._page import _Events, build_page  # noqa: E402
from comixup.lab.explorer._settings import SPECTRAL  # noqa: E402


@pytest.fixture(autouse=True)
def _collect_garbage():
    """Lets no warning of gradio's garbage reach the tests of other files."""
    yield
    gc.collect()


def values(**changes):
    """What the controls hold; numbers of sliders come as integers where they are whole."""
    held = vars(Settings(**changes)).values()
    return [int(v) if isinstance(v, float) and v.is_integer() else v for v in held]


def test_there_is_a_control_for_every_setting():
    page = build_page(Workbench(["runs/one"]))
    names = {block.elem_id for block in page.blocks.values() if getattr(block, "elem_id", None)}
    assert set(vars(Settings())) - {"sample"} <= names
    assert Settings.from_controls(values(tau=1.0, grid=8)) == Settings(tau=1.0, grid=8)


class Visit:
    """Stands in for gradio's request."""

    session_hash = "one"


def test_a_move_of_a_slider_shows_outputs_at_once():
    problem, numbers, outputs, code = _Events(Workbench()).mix(Visit(), None, *values(tau=1.1))
    assert problem == ""
    assert "data-mean-inputs" in numbers
    assert "data:image/png;base64," in outputs
    assert code["visible"] is False


def test_slower_figures_are_drawn_once_and_not_for_those_who_moved_on():
    events, skip = _Events(Workbench()), gradio.skip()
    *_, (_, _, _, drawn) = events.explain(Visit(), None, *values(), ())
    only_why = list(events.explain(Visit(), None, *values(tau=1.1), drawn))
    assert [[part == skip for part in shown] for shown in only_why] == [[True, False, True, True]]
    other_seed = list(events.explain(Visit(), None, *values(seed=1), drawn))
    assert [shown[2] != skip for shown in other_seed] == [False, True]
    assert all(shown[0] == skip for shown in other_seed)
    slow = events.explain(Visit(), None, *values(grid=2), drawn)
    next(slow)
    events.mix(Visit(), None, *values(grid=3))
    assert list(slow) == []


@pytest.mark.parametrize(
    ("files", "changes", "message"),
    [
        (["{folder}/<script>.png"], {}, "&lt;script&gt;.png cannot be read as an image"),
        (None, {"saliency": "no/such/run"}, "no/such/run"),
        (None, {"saliency": "resnt18"}, "Did you mean"),
    ],
)
def test_mistakes_become_messages(files, changes, message, tmp_path):
    (tmp_path / "<script>.png").write_text("alert(1)")
    files = None if files is None else [name.format(folder=tmp_path) for name in files]
    events = _Events(Workbench())
    shown = events.mix(Visit(), files, *values(**changes))
    assert message in shown[0]
    assert "<script>" not in shown[0]
    assert shown[2] == gradio.skip()
    assert list(events.explain(Visit(), files, *values(**changes), ())) == []


def test_code_is_given():
    update = _Events(Workbench()).give_code(None, *values(seed=3))
    assert "manual_seed(3)" in update["value"]
    assert update["visible"] is True


def test_the_server_is_local_and_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("GRADIO_TEMP_DIR", "GRADIO_ANALYTICS_ENABLED"):
        monkeypatch.setenv(name, "")
    address, stack = explorer.serve(port=0, wait=False)
    folder = os.environ["GRADIO_TEMP_DIR"]
    with stack:
        assert address.startswith("http://127.0.0.1:")
        assert os.path.isdir(folder)
        assert os.environ["GRADIO_ANALYTICS_ENABLED"] == "False"
        page = urllib.request.urlopen(address, timeout=60).read().decode()
        assert "Co-Mixup explorer" in page
        for secret in ("/etc/passwd", str(tmp_path / "x")):
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(f"{address}gradio_api/file={secret}", timeout=60)
            assert refused.value.code in (403, 404)
    assert not os.path.exists(folder)
    assert list(tmp_path.iterdir()) == []


def status(address, **headers):
    """The HTTP status of the page's root for a request with other headers."""
    request = urllib.request.Request(address, headers=headers)
    try:
        return urllib.request.urlopen(request, timeout=60).status
    except urllib.error.HTTPError as refused:
        return refused.code


def test_other_sites_pages_are_rejected_on_this_machine_alone():
    address, stack = explorer.serve(port=0, wait=False)
    own = address.removeprefix("http://").rstrip("/")
    with stack:
        assert status(address) == status(address, Origin=f"http://{own}") == 200
        assert status(address, Host=own.replace("127.0.0.1", "localhost")) == 200
        assert status(address, Origin="http://evil.example") == 403
        assert status(address, Host="evil.example", Origin="http://evil.example") == 403
        assert status(f"{address}gradio_api/upload", Origin="null") == 403


def shown_after(address, session, settings):
    """Moves a control as a visitor's page does; returns what the server sends back."""
    config = json.loads(urllib.request.urlopen(f"{address}config", timeout=60).read())
    event = next(e for e in config["dependencies"] if e["api_name"] == "mix")
    asked = {"data": [None, *settings], "fn_index": event["id"], "session_hash": session}
    join = urllib.request.Request(
        f"{address}gradio_api/queue/join",
        json.dumps(asked).encode(),
        {"Content-Type": "application/json", "Origin": address.rstrip("/")},
    )
    urllib.request.urlopen(join, timeout=60).close()
    answers = f"{address}gradio_api/queue/data?session_hash={session}"
    with urllib.request.urlopen(answers, timeout=120) as stream:
        for line in stream:
            if line.startswith(b"data: ") and b"process_completed" in line:
                return line.decode()
    return None


def test_a_visitor_with_a_slow_network_holds_up_nobody(monkeypatch):
    let_go, begun = threading.Event(), threading.Event()

    def load(_):
        begun.set()
        let_go.wait(120)
        raise ValueError("too slow")

    monkeypatch.setattr("comixup.lab.explorer._explore.load_network", load)
    address, stack = explorer.serve(port=0, wait=False)
    with stack, ThreadPoolExecutor(2) as pool:
        slow = pool.submit(shown_after, address, "one", values(sample="digits", saliency="slow"))
        assert begun.wait(120)
        quick = values(sample="digits", saliency=SPECTRAL)
        assert "data-mean-inputs" in pool.submit(shown_after, address, "two", quick).result(120)
        assert not slow.done()
        let_go.set()
        assert "too slow" in slow.result(120)


def test_augmented_inputs_are_shown_before_and_after():
    drawn = []
    for augment in ("none", "trivial"):
        events = _Events(Workbench())
        shown = next(events.explain(Visit(), None, *values(count=4, augment=augment), ()))[0]
        drawn.append(shown)
        assert shown.count("<img") == (2 if augment == "trivial" else 1)
    assert "before and after augmentation" in drawn[1]
