"""The page of `opstep log report` in a real browser, without a network."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from harness import ROOT
from harness.log_folder import FakeLog
from harness.patience import until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

PICTURES = ROOT / "build" / "vscode"
HOSTILE = (
    '</script><script>document.title="owned"</script><img src=x onerror=document.title="owned">'
)
# How much of a canvas is drawn on.
PAINTED = """canvas => {
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
  let painted = 0;
  for (let i = 3; i < data.length; i += 4) painted += data[i] > 0;
  return painted / (data.length / 4);
}"""


@pytest.fixture
def opened(
    request: pytest.FixtureRequest, browser: Browser, tmp_path: Path
) -> Iterator[Callable[[FakeLog], Page]]:
    """Opens the page of a log; in the end nothing was fetched and nothing went wrong."""
    context = browser.new_context(viewport={"width": 1400, "height": 1000}, color_scheme="light")
    wrong: list[str] = []
    asked: list[str] = []

    def opens(log: FakeLog) -> Page:
        words = ["log", "report", str(log.directory), "--html", str(tmp_path / "page.html")]
        subprocess.run([sys.executable, "-m", "opstep_server", *words], check=True)
        page = context.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda message: wrong.append(message.text))
        page.on("request", lambda request: asked.append(request.url))
        page.goto((tmp_path / "page.html").as_uri())
        page.wait_for_selector(".card canvas")
        return page

    try:
        yield opens
    finally:
        PICTURES.mkdir(parents=True, exist_ok=True)
        for page in context.pages:
            page.screenshot(path=PICTURES / f"{request.node.name}.png")
        context.close()
    assert wrong == []
    assert asked == [(tmp_path / "page.html").as_uri()]


@pytest.fixture
def log(tmp_path: Path) -> FakeLog:
    fake = FakeLog(tmp_path / "logs", sources=12, histograms=True)
    fake.steps(60)
    fake.add(3, nan=4, mean="NaN", max="Infinity", inf=1)
    fake.counts(produced=730, delivered=721, queue_full=6, rate=3)
    return fake


def shown(page: Page) -> list[str]:
    return page.locator(".card:visible h2").all_text_contents()


def test_plots_counts_and_time(log: FakeLog, opened: Callable[[FakeLog], Page]):
    page = opened(log)
    assert "721 records of 12 sources in 1 file" in page.locator("header").inner_text()
    assert page.locator("#counts tr").nth(1).locator("td").all_text_contents() == [
        "all", "730", "721", "0", "9", "queue full 6, rate 3",
    ]  # fmt: skip
    card = page.locator(".card").first
    captions = card.locator("figcaption").all_text_contents()
    assert [caption.split(",")[0] for caption in captions] == [
        "mean", "std", "l2", "NaN 0 · Inf 0 · zeros 5 %", "histogram over steps",
    ]  # fmt: skip
    painted = [card.locator("canvas").nth(at).evaluate(PAINTED) for at in range(5)]
    assert painted[0] > 0.2 and painted[3] > 0.2 and painted[4] > 0.2
    assert all(part > 0.005 for part in painted)
    assert "1 record with NaN or Inf" in page.locator(".card").nth(3).inner_text()


def test_search_order_and_keys(log: FakeLog, opened: Callable[[FakeLog], Page]):
    page = opened(log)
    assert shown(page)[:3] == ["fc_0.matmul", "fc_1.matmul", "fc_2.matmul"]
    assert shown(page)[-1] == "fc_11.matmul"
    page.keyboard.press("/")
    page.keyboard.type("FC_1 all train.py")
    assert shown(page) == ["fc_1.matmul", "fc_10.matmul", "fc_11.matmul"]
    assert page.locator("#found").inner_text() == "3 of 12 sources"
    page.keyboard.press("Enter")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.card.source.op") == "fc_10.matmul"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    focused = page.locator(".card:focus")
    assert focused.locator(".readout").inner_text().startswith("step 1  12:00:01")
    small = focused.locator("canvas").first.bounding_box()
    page.keyboard.press("Enter")
    large = focused.locator("canvas").first.bounding_box()
    assert small and large and large["height"] > 2 * small["height"]
    assert focused.locator("canvas").first.evaluate(PAINTED) > 0.2
    page.keyboard.press("Escape")
    assert len(shown(page)) == 12
    page.locator("#search").fill("nothing has this")
    assert shown(page) == []
    assert page.locator("#none").is_visible()
    page.locator("#search").fill("")
    page.locator("#order").select_option("NaN and Inf first")
    assert shown(page)[:2] == ["fc_3.matmul", "fc_0.matmul"]
    for key, button in (("x", "#time"), ("l", "#log")):
        page.locator(".card").first.focus()
        page.keyboard.press(key)
        assert page.locator(button).get_attribute("aria-pressed") == "true"
    assert page.locator(".card canvas").first.evaluate(PAINTED) > 0.2
    page.locator(".card canvas").first.hover()
    assert "mean" in page.locator(".card .readout").first.inner_text()


def test_themes(log: FakeLog, opened: Callable[[FakeLog], Page]):
    page = opened(log)
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.emulate_media(color_scheme="dark")
    until("a dark page", lambda: page.evaluate(ground) == "rgb(20, 23, 26)")
    assert light == "rgb(255, 255, 255)"
    page.locator("#theme").click()
    assert page.evaluate(ground) == light


def test_names_are_text(tmp_path: Path, opened: Callable[[FakeLog], Page]):
    log = FakeLog(tmp_path / "logs", sources=2, tap=HOSTILE, ops={0: HOSTILE})
    log.steps(3)
    log.counts(produced=1, delivered=1)
    page = opened(log)
    assert HOSTILE in shown(page)
    assert page.title() == f"Tap log {log.directory}"
    assert page.locator("img").count() == 0
    assert page.locator("#counts td").first.inner_text() == HOSTILE


def test_two_thousand_sources_are_drawn_when_seen(
    tmp_path: Path, opened: Callable[[FakeLog], Page]
):
    log = FakeLog(tmp_path / "logs", sources=2000)
    log.steps(20)
    page = opened(log)
    assert page.locator("#found").inner_text() == "2,000 sources"
    assert 0 < page.locator("canvas").count() < 100
    page.locator(".card").nth(1999).scroll_into_view_if_needed()
    last = page.locator(".card").nth(1999).locator("canvas")
    until("the last plots", lambda: last.count() == 4)
    assert page.locator("canvas").count() < 100
    page.locator("#search").fill("fc_1777")
    until("its plots", lambda: page.locator(".card:not([hidden]) canvas").count() == 4)
    assert shown(page) == ["fc_1777.matmul"]
