"""The chat page in a browser: Debian's `chromium-headless-shell` (setup/debian-packages.txt) driven by playwright; skipped without them."""

from __future__ import annotations

import re
import shutil

import pytest
from http_test import call
from null_server import wait_for

BROWSER = shutil.which("chromium-headless-shell") or shutil.which("chromium")
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no chromium-headless-shell (setup/debian-packages.txt)")
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed (setup/requirements-test.txt)")
# The null engine answers with the message itself, a token each 20 ms.
LONG = "one two three four five six seven eight nine ten " * 20
HOSTILE = '<script>window.hurt = 1</script><img src="x" onerror="window.hurt = 1"><a href="javascript:window.hurt=1">a</a> **bold** `code`'


@pytest.fixture(scope="module")
def browser():
    with playwright.sync_playwright() as driver:
        made = driver.chromium.launch(executable_path=BROWSER, args=["--no-sandbox"])
        yield made
        made.close()


@pytest.fixture
def page(browser, serve):
    """A page that nothing went wrong on, of a server of its own."""
    server = serve("--null-step", "20000")
    context = browser.new_context()
    page = context.new_page()
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("request", lambda request: wrong.append(request.url) if not request.url.startswith(server.url) else None)
    page.goto(server.url)
    page.server, page.expected = server, "nothing"
    yield page
    context.close()
    assert [text for text in wrong if "favicon" not in text and page.expected not in text] == []


def ask(page, text):
    page.get_by_label("Message").fill(text)
    page.keyboard.press("Enter")


def answer(page):
    """The text of the last answer."""
    return page.locator(".message.assistant > div").nth(-2).inner_text()


def ended(page):
    page.get_by_role("button", name="Send", exact=True).wait_for(timeout=60_000)


def metric(page, name):
    text = call(page.server, "GET", "/metrics")[2].decode()
    return float(re.search(rf"^{name} (\S+)", text, re.MULTILINE)[1])


def test_an_answer_streams(page):
    ask(page, LONG)
    page.get_by_role("button", name="Stop", exact=True).wait_for()
    seen = set()
    wait_for(lambda: seen.add(answer(page)) or len(seen) > 4)
    ended(page)
    assert "nine ten one two" in answer(page)
    assert re.search(r"\d+ tokens, first after [\d.]+ s, [\d.]+ tokens/s", page.locator("#status").inner_text())


def test_stop_ends_the_generation_and_keeps_the_text(page):
    ask(page, LONG)
    wait_for(lambda: "three four" in answer(page))
    page.get_by_role("button", name="Stop", exact=True).click()
    ended(page)
    text = answer(page)
    assert 10 < len(text) < len(LONG) - 50
    wait_for(lambda: metric(page, "knapper_requests_abandoned_total") == 1)
    assert answer(page) == text


def test_conversations_outlive_a_reload(page):
    ask(page, "remember me")
    ended(page)
    before = page.locator("main").inner_text()
    assert before.count("remember me") == 2
    page.reload()
    assert page.locator("main").inner_text() == before
    page.get_by_role("button", name="Retry").click()
    ended(page)
    assert page.locator("main").inner_text() == before


def test_what_a_model_writes_is_never_run(page):
    ask(page, HOSTILE)
    ended(page)
    said = page.locator(".message.assistant > div").nth(-2)
    assert "<script>window.hurt = 1</script>" in said.inner_text() and "onerror" in said.inner_text()
    assert page.locator("main :is(script, img, a)").count() == 0
    assert said.locator("strong").inner_text() == "bold" and said.locator("code").inner_text() == "code"
    assert page.evaluate("window.hurt") is None
    # Nor if it became markup: the policy lets the page's own script run alone.
    page.expected = "Content Security Policy"
    page.evaluate("text => document.body.append(document.createRange().createContextualFragment(text))", HOSTILE)
    page.wait_for_timeout(500)
    assert page.locator("body > script").count() == 2 and page.evaluate("window.hurt") is None


def test_a_refusal_is_shown(page):
    page.expected = "400 (Bad Request)"
    page.get_by_text("Settings").click()
    page.get_by_label("Temperature").fill("7")
    ask(page, "Hello")
    page.locator(".error").wait_for()
    assert "temperature" in page.locator(".error").inner_text()
