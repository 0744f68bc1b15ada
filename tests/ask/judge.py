"""A judge at a page in a browser."""

import re


class Judge:
    """Answers on a page by a known utility of each item's name."""

    def __init__(self, page, utility, tie=0.0):
        self.page, self.utility, self.tie = page, utility, tie

    def open(self, address, name=None):
        """Open the page; give a name if it is asked for."""
        self.page.goto(address)
        if name is not None:
            self.page.fill("#judge-name", name)
            self.page.keyboard.press("Enter")
        self.page.wait_for_selector("#choices button:enabled")
        return self

    def pair(self):
        """Names of the left and the right item."""
        return [self.page.locator(f"#{side}-content .text").first.text_content()
                for side in ("left", "right")]  # fmt: skip

    def outcome(self):
        """The true answer to the pair on the page."""
        left, right = (self.utility[name] for name in self.pair())
        return 0 if abs(left - right) <= self.tie else (1 if left > right else -1)

    def kept(self):
        """Keys of the answers that the page has sent and not taken back."""
        return self.page.evaluate("() => JSON.parse(sessionStorage.getItem('mine') ?? '[]')")

    def wait(self, kept):
        """Wait until the page has another number of answers, and shows the next pair."""
        self.page.wait_for_function(
            "n => JSON.parse(sessionStorage.getItem('mine') ?? '[]').length !== n", arg=kept
        )
        self.page.wait_for_selector("#choices button:enabled, #message:not([hidden])")

    def act(self, action):
        """Do something that adds or removes an answer, and wait for the next pair."""
        before = len(self.kept())
        action()
        self.wait(before)

    def press(self, key):
        """Press a key that answers."""
        self.act(lambda: self.page.keyboard.press(key))

    def answer(self):
        """Answer truly, by a key."""
        self.press({1: "ArrowLeft", 0: "t", -1: "ArrowRight"}[self.outcome()])

    @property
    def done(self):
        """Whether all pairs are done."""
        return self.page.locator("#message").is_visible()

    def progress(self):
        """Text about the progress."""
        return self.page.locator("#progress-text").text_content()

    def told(self):
        """Number of answers that the text promises, or None."""
        found = re.search(r"About (\d+) more until the (top|best)", self.progress())
        return int(found[1]) if found else None

    @property
    def settled(self):
        """Whether the page says that the best are settled."""
        return "settled: stop here" in self.progress()

    def ranking(self):
        """Names in the order of the ranking."""
        return self.page.locator("#ranking-rows .name").all_text_contents()
