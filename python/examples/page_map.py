"""A page map in Python that mounts after power cuts. On one die of sound flash it does command for command what the
scheme `page` does: greedy collection, discards that are not durable, no wear levelling."""

from collections import deque

import ftlab

NONE, LOW, HIGH, BUSY = -1, 3, 4, 1 << 20


class PageMap(ftlab.Scheme):
    """A map of every page, in Python."""

    name, phases, spare_blocks = "page-map", ("host", "data_gc"), 5

    def format(self, flash, logical_pages):
        self.size = flash.pages_per_block
        self.map = [NONE] * logical_pages  # LPN -> page
        self.owner = [NONE] * (flash.blocks * self.size)  # page -> LPN, of live pages
        self.live = [BUSY] * flash.blocks  # Live pages; BUSY more if the block is free or being filled.
        self.free, self.stale = deque(range(flash.blocks)), set()  # Stale blocks are erased before their use.
        self.open, self.next, self.version = None, self.size, 0

    def mount(self, flash, logical_pages):
        self.format(flash, logical_pages)
        newest = {}  # Of equal versions the older copy: what an interrupted collection had copied is not needed.
        for page in range(len(self.owner)):
            found = flash.read_oob(page, "recovery")
            if found and found.kind == "data" and flash.read(page, "recovery").kind == "data":
                best = newest.get(found.lpn)
                newest[found.lpn] = max(best or (0, 0, 0), (found.version, -found.program, page))
                self.version = max(self.version, found.version)
        for lpn, (_, _, page) in newest.items():
            self.point(lpn, page)
        self.stale = {block for block, live in enumerate(self.live) if live == BUSY}
        self.free = deque(sorted(self.stale))
        self.live = [live if live == BUSY else live - BUSY for live in self.live]

    def point(self, lpn, page):
        old, self.map[lpn] = self.map[lpn], page
        if old != NONE:
            self.owner[old] = NONE
            self.live[old // self.size] -= 1
        if page != NONE:
            self.owner[page] = lpn
            self.live[page // self.size] += 1

    def read(self, flash, lpn):
        if (page := self.map[lpn]) == NONE:
            return None
        flash.read(page)
        return page

    def write(self, flash, lpn):
        if self.next == self.size and len(self.free) <= LOW:
            while len(self.free) < HIGH and flash.collection(self.collect, flash):
                pass
        page, self.version = self.take(flash, "host"), self.version + 1
        flash.program(page, lpn, self.version)
        self.point(lpn, page)

    def take(self, flash, cause):
        if self.next == self.size:
            if not self.free:
                raise ftlab.DeviceFull("no block is free")
            if self.open is not None:
                self.live[self.open] -= BUSY
            self.open, self.next = self.free.popleft(), 0
            if self.open in self.stale:
                flash.erase(self.open, cause)
                self.stale.remove(self.open)
        self.next += 1
        return self.open * self.size + self.next - 1

    def collect(self, flash):
        if (least := min(self.live)) >= self.size:
            return False
        victim = self.live.index(least)
        self.live[victim] += BUSY
        for page in range(victim * self.size, (victim + 1) * self.size):
            if (lpn := self.owner[page]) != NONE:
                target = self.take(flash, "data_gc")
                flash.copy(page, target)
                self.point(lpn, target)
        flash.then()
        flash.erase(victim)
        self.free.append(victim)
        return True

    def trim(self, flash, first, count):
        for lpn in range(first, first + count):
            self.point(lpn, NONE)

    def flush(self, flash):
        pass
