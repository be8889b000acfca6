"""The HTML report in a browser without a window: it loads, asks for nothing, and its search works.

Debian's `chromium-headless-shell` (in setup/debian-packages.txt); without a browser the tests are skipped.
"""

from __future__ import annotations

import re
import shutil
import subprocess

import pytest
from tool_models import affine, chain

BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
BROWSER = next((path for name in BROWSERS if (path := shutil.which(name))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser: none of " + ", ".join(BROWSERS))


def shown(page, folder, script="", *flags):
    """The document after loading, `script` having run; and what the browser said on the console."""
    path = folder / "page.html"
    path.write_text(page.replace("</body>", f"<script>{script}</script></body>"))
    done = subprocess.run(
        [BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--dump-dom",
         "--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}", "--virtual-time-budget=3000", *flags,
         path.as_uri()],
        capture_output=True, text=True, timeout=120, env={"HOME": str(folder), "PATH": "/usr/bin:/bin"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, console


@pytest.fixture
def page(tool, tmp_path):
    """Two kernels: relu(2 x + 1) by columns, and its sums."""
    tool("explain", affine(tmp_path / "m.onnx"), "-o", "r.html")
    return (tmp_path / "r.html").read_text()


def test_it_loads_without_a_complaint(page, tmp_path):
    dom, console = shown(page, tmp_path)
    assert console == []
    for part in ("launches", "memory", "phases", "kernels", "search"):
        assert f'id="{part}"' in dom
    assert "clip" in dom


def test_every_link_leads_somewhere(page, tmp_path):
    dom, _ = shown(page, tmp_path)
    links = re.findall(r'href="([^"]*)"', dom)
    assert links and all(link.startswith("#") for link in links)
    for link in links:
        assert f'id="{link[1:]}"' in dom, link


@pytest.mark.parametrize("word, visible", [("clip", True), ("no such kernel", False), ("", True), ("CLIP", True)])
def test_search_hides_rows(page, tmp_path, word, visible):
    script = f"""
      const field = document.getElementById('search');
      field.value = {word!r};
      field.dispatchEvent(new Event('input'));
      const rows = [...document.querySelectorAll('.launches tr')].filter(r => r.querySelector('td'));
      document.title = 'rows ' + rows.length + ' seen ' + rows.filter(r => getComputedStyle(r).display !== 'none').length;
    """
    dom, console = shown(page, tmp_path, script)
    rows, seen = map(int, re.search(r"<title>rows (\d+) seen (\d+)</title>", dom).groups())
    assert console == [] and rows >= 1
    assert (seen > 0) == visible


def test_the_graph_is_walked(tool, tmp_path):
    """A click shows a kernel, arrows and links go to its neighbours."""
    tool("explain", chain(tmp_path / "chain.onnx"), "-o", "r.html")
    script = """
      const seen = () => [...document.querySelectorAll('.detail')]
        .filter(d => getComputedStyle(d).display !== 'none').map(d => d.id).join();
      const boxes = document.querySelectorAll(".node"), steps = [seen()];
      boxes[1].dispatchEvent(new MouseEvent('click', {bubbles: true})); steps.push(seen());
      boxes[1].dispatchEvent(new KeyboardEvent('keydown', {key: 'ArrowUp', bubbles: true})); steps.push(seen());
      document.querySelector('#launch0 a').click(); steps.push(seen());
      steps.push(document.querySelectorAll('.edge.near').length);
      document.title = 'walk ' + steps.join(' ');
    """
    dom, console = shown((tmp_path / "r.html").read_text(), tmp_path, script)
    assert console == []
    assert re.search(r"<title>walk (.*?)</title>", dom).group(1) == "launch0 launch1 launch0 launch1 1"


def test_names_of_models_run_nothing(tool, tmp_path):
    name = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
    tool("explain", affine(tmp_path / "evil.onnx", name=name), "-o", "r.html")
    dom, _ = shown((tmp_path / "r.html").read_text(), tmp_path)
    title = re.search(r"<title>(.*?)</title>", dom, re.S).group(1)
    assert title != "taken" and "<img" not in dom


def test_it_fits_the_window(page, tmp_path):
    script = "document.title = 'over ' + (document.documentElement.scrollWidth - window.innerWidth)"
    dom, _ = shown(page, tmp_path, script, "--window-size=1400,900")
    assert int(re.search(r"<title>over (-?\d+)</title>", dom).group(1)) <= 0
