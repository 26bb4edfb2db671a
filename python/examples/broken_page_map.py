"""The page map of `page_map.py` with a bug that power cuts bring to light: `ftlab.check` finds it."""

from page_map import PageMap


class BrokenPageMap(PageMap):
    """A page map that trusts blank pages."""

    name = "broken-page-map"

    def mount(self, flash, logical_pages):
        super().mount(flash, logical_pages)
        # The bug: power may have been cut in an erase. Such a block can look blank and is not safe to program.
        self.stale = {block for block in self.stale if flash.read_oob(block * self.size, "recovery")}
