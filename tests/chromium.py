"""The system's Chromium, for tests that look at pages."""

import shutil
from contextlib import contextmanager

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
SLOWEST = 120_000  # milliseconds that a page may take on a machine that does other things too
# Without a screen, without the sandbox that root may not use, and without calls home.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# The ratio of every text to what is behind it, by the definition of WCAG 2.
CONTRAST = """() => {
  const parse = c => c.match(/[\\d.]+/g).map(Number);
  const luminance = c => {
    const [r, g, b] = parse(c).slice(0, 3).map(v => {
      v /= 255; return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
    return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
  const behind = node => {
    for (let at = node; at; at = at.parentElement) {
      const c = getComputedStyle(at).backgroundColor;
      if (parse(c).length < 4 || parse(c)[3] > 0) return c; }
    return 'rgb(255, 255, 255)'; };
  const found = [];
  for (const node of document.querySelectorAll('body *')) {
    const own = [...node.childNodes].some(c => c.nodeType === 3 && c.textContent.trim());
    if (!own) continue;
    const a = luminance(getComputedStyle(node).color), b = luminance(behind(node));
    found.push([(Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05), node.tagName]);
  }
  return found; }"""


@contextmanager
def chromium(*flags):
    """A browser; the test is skipped where there is none."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the extra dev")
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here: apt-get install chromium")
    with sync_api.sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS, *flags])
        try:
            yield opened
        finally:
            opened.close()
