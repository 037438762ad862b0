"""The explorer in a real browser: `make browser`.

Set COMIXUP_SCREENSHOTS to a folder to keep screenshots of every step.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from PIL import Image

pytestmark = pytest.mark.browser

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is missing: make browser")
pytest.importorskip("gradio", reason="gradio is missing: make browser")

from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402
from selenium.webdriver.support.ui import WebDriverWait  # noqa: E402

WAIT = 120
"""Seconds at most: the machine may be busy."""
SIZE = (1366, 768)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The address of `comixup explore`, run as a user does, in a folder of its own."""
    folder = tmp_path_factory.mktemp("server")
    command = [sys.executable, "-m", "comixup", "explore", "--port", "0"]
    environment = {**os.environ, "TMPDIR": str(folder), "HOME": str(folder)}
    with (folder / "log.txt").open("w+") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
        try:
            yield wait_for(lambda: address_in(folder / "log.txt", process))
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(30)
    left = [*folder.rglob("*.png"), *folder.rglob("*.jpg"), *folder.glob("comixup-explorer-*")]
    assert left == [], "files of visitors were left behind"


def address_in(log, process):
    found = re.search(r"The explorer is at (http://127\.0\.0\.1:\d+/)", log.read_text())
    assert found or process.poll() is None, log.read_text()
    return found and found[1]


def wait_for(condition):
    deadline = time.monotonic() + WAIT
    while not (found := condition()):
        assert time.monotonic() < deadline, "it takes too long"
        time.sleep(0.05)
    return found


@pytest.fixture(scope="module")
def driver():
    programs = [shutil.which(name) for name in ("chromium", "chromedriver")]
    assert all(programs), "chromium and chromedriver must be installed: see `make browser`"
    options = webdriver.ChromeOptions()
    options.binary_location = programs[0]
    for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=programs[1])
    driver = webdriver.Chrome(options=options, service=service)
    # The window's inside has the size of a laptop's screen.
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": SIZE[0], "height": SIZE[1], "deviceScaleFactor": 1, "mobile": False},
    )
    yield driver
    driver.quit()


@pytest.fixture
def page(driver, server):
    return Page(driver, server)


class Page:
    """What a visitor does and sees."""

    def __init__(self, driver, address):
        self.driver = driver
        self.open(address)

    def open(self, address):
        self.driver.get(address)
        self.until(lambda: self.all("#baselines img") and self.all("#inputs img"))

    def until(self, condition):
        from selenium.common.exceptions import WebDriverException  # noqa: PLC0415

        # Elements are replaced while one looks at them.
        waiting = WebDriverWait(self.driver, WAIT, 0.05, ignored_exceptions=[WebDriverException])
        return waiting.until(lambda _: condition())

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.until(lambda: self.all(selector))[0]

    def inputs_per_output(self):
        return float(self.one("#numbers").get_attribute("data-mean-inputs"))

    def outputs(self):
        return self.one("#outputs img").get_attribute("src")

    def message(self):
        found = self.all("#problem")
        return found[0].text if found else ""

    def push(self, name, steps):
        """Moves a slider by the keyboard."""
        key = Keys.ARROW_RIGHT if steps > 0 else Keys.ARROW_LEFT
        self.one(f"#{name} input[type=range]").send_keys(key * abs(steps))

    def upload(self, *paths):
        tab = next(b for b in self.all("button[role=tab]") if b.text == "Your own")
        tab.click()
        self.one("#files input[type=file]").send_keys("\n".join(map(str, paths)))

    def shoot(self, name):
        if folder := os.environ.get("COMIXUP_SCREENSHOTS"):
            Path(folder).mkdir(parents=True, exist_ok=True)
            self.driver.save_screenshot(str(Path(folder, f"{name}.png")))


def test_the_page_shows_everything_and_asks_nobody_else(page):
    for part in ("inputs", "outputs", "why", "baselines"):
        image = page.one(f"#{part} img")
        assert page.driver.execute_script("return arguments[0].naturalWidth", image) > 500
        assert image.get_attribute("alt")
    assert len(page.all("#baselines img")) == 9
    assert "solved in" in page.one("#numbers").text
    assert "saliency: efficientnet-lite0" in page.one("#numbers").text
    wide = page.driver.execute_script("return document.documentElement.scrollWidth")
    assert wide <= SIZE[0], "the page must fit a laptop's width"
    loaded = page.driver.execute_script(
        "return performance.getEntriesByType('resource').map(entry => entry.name)"
    )
    assert loaded
    assert [name for name in loaded if not re.match(r"http://127\.0\.0\.1|data:|blob:", name)] == []
    page.shoot("loaded")


def test_a_larger_tau_shows_more_inputs_per_output(page):
    before, picture = page.inputs_per_output(), page.outputs()
    start = time.perf_counter()
    page.push("tau", 30)
    page.until(lambda: page.inputs_per_output() > before)
    print(f"after {time.perf_counter() - start:.2f} s of 30 steps of the slider")
    assert page.outputs() != picture
    page.until(lambda: page.one("#tau input[type=number]").get_attribute("value") == "1.13")
    picture, start = page.outputs(), time.perf_counter()
    page.push("seed", 1)
    page.until(lambda: page.outputs() != picture)
    print(f"one step of a slider: {time.perf_counter() - start:.2f} s")
    page.shoot("tau")


def test_good_and_broken_files(page, tmp_path):
    for k, colour in enumerate(("red", "green", "blue")):
        image = Image.new("RGB", (120, 80), "white")
        image.paste(colour, (20 + 20 * k, 20, 60 + 20 * k, 60))
        image.save(tmp_path / f"square {k}.png")
    broken = tmp_path / "broken.png"
    broken.write_bytes((tmp_path / "square 0.png").read_bytes()[:60])
    picture = page.outputs()
    page.upload(*sorted(tmp_path.glob("square*.png")), broken)
    page.until(lambda: "broken.png cannot be read as an image" in page.message())
    page.until(lambda: page.outputs() != picture)
    assert str(tmp_path) not in page.driver.page_source
    page.shoot("files")


def test_only_broken_files_leave_the_page_as_it_is(page, tmp_path):
    broken = tmp_path / "text.jpg"
    broken.write_text("no image")
    picture = page.outputs()
    page.upload(broken)
    page.until(lambda: "text.jpg cannot be read as an image" in page.message())
    assert page.outputs() == picture


def test_the_code_can_be_copied_and_run(page, tmp_path, monkeypatch):
    picture = page.outputs()
    page.push("grid", 2)
    page.until(lambda: page.outputs() != picture)
    page.driver.execute_script("arguments[0].click()", page.one("#lines"))
    code = page.until(lambda: page.one("#code textarea").get_attribute("value"))
    assert "grid=6" in code
    assert page.all("#code button"), "there must be a button that copies"
    page.shoot("code")
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(code, "copied", "exec"), names)
    assert names["images"].shape == (8, 3, 224, 224)
    assert (tmp_path / "batch.png").is_file()
