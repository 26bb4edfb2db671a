from _typeshed import Incomplete, SupportsGetItem
from typing import Any, Final, SupportsIndex, final
VERSION: Final[str]

@final
class Device:
    """
    A device; the wrapper `ftlab.Device` has the manners.
    """
    def __new__(cls, /, keys: str, own: Foreign | None) -> Device:
        """
        `keys` are those of an experiment with one scheme.
        """
    def arm(self, /, face: SupportsIndex, command: SupportsIndex, seed: SupportsIndex) -> None: ...
    def blocks(self, /) -> dict:
        """
        Arrays with an entry per block: pages programmed, pages current, erases.
        """
    def commands(self, /) -> list[str]:
        """
        The flash commands of the last request.
        """
    def counters(self, /) -> list[tuple[str, int]]:
        """
        The scheme's counters.
        """
    def cut(self, /) -> None: ...
    def flush(self, /) -> None: ...
    def idle(self, /, copies: SupportsIndex) -> bool: ...
    def is_on(self, /) -> bool:
        """
        Whether it is mounted.
        """
    def mount(self, /) -> list[int]:
        """
        What the mount found: pages programmed, pages torn, entries restored, bad blocks.
        """
    def pages(self, /) -> dict:
        """
        Arrays with an entry per page: state, kind and cause as words, address (-1: none) and version as numbers.
        """
    def read(self, /, lpn: SupportsIndex) -> bytes | None: ...
    def shape(self, /) -> dict:
        """
        Its shape: numbers by name.
        """
    def trim(self, /, first: SupportsIndex, count: SupportsIndex) -> None: ...
    def write(self, /, first: SupportsIndex, pages: bytes) -> None: ...

@final
class Flash:
    """
    The `flash` of a method: empty, for the medium is elsewhere.
    """
    @property
    def blocks(self, /) -> int:
        """
        Blocks of the chip.
        """
    def collection(self, /, body: Any, *arguments) -> Any:
        """
        Calls a function within a collection: its commands wait neither for each other nor for those of the host page
        that set it off.
        """
    def copy(self, /, source: SupportsIndex, target: SupportsIndex, cause: str = "data_gc") -> Record:
        """
        Copies a page; what it says it is. A log page becomes a data page.
        """
    @property
    def dies(self, /) -> int:
        """
        Dies of the chip.
        """
    def erase(self, /, block: SupportsIndex, cause: str = "data_gc") -> None:
        """
        Erases a block.
        """
    def erases(self, /, block: SupportsIndex) -> int:
        """
        Erases of a block, as far as the scheme did them.
        """
    @property
    def page_bytes(self, /) -> int:
        """
        Bytes of a page.
        """
    @property
    def pages_per_block(self, /) -> int:
        """
        Pages of a block.
        """
    def program(self, /, ppn: SupportsIndex, lpn: SupportsIndex, version: SupportsIndex, cause: str = "host", kind: str = "data") -> None:
        """
        Programs the page that the host writes.
        """
    def program_words(self, /, ppn: SupportsIndex, number: SupportsIndex, words: SupportsGetItem[int, SupportsIndex], version: SupportsIndex = 0, cause: str = "metadata", kind: str = "checkpoint") -> None:
        """
        Programs a page of metadata words, of 32 bits each.
        """
    def read(self, /, ppn: SupportsIndex, cause: str = "host") -> Record:
        """
        Reads a page: what it says it is. Its host data are what `read` returns by returning the page.
        """
    def read_oob(self, /, ppn: SupportsIndex, cause: str = "host") -> Record | None:
        """
        Reads a spare area alone: what the page says it is; None if it is blank.
        """
    def then(self, /) -> None:
        """
        Within a collection: what follows begins when everything so far has ended.
        """
    def written(self, /, block: SupportsIndex) -> int:
        """
        Pages of a block up to the last that is known to be programmed.
        """

@final
class Foreign:
    """
    A scheme that `schemes=[…]`, `check` and `Device` take.
    """
    def __new__(cls, /, name: str, summary: str, phases: SupportsGetItem[int, str], spare_blocks: SupportsIndex, make: Any) -> Foreign:
        """
        `make` makes an object of the scheme; `phases` are the causes of its changing commands.
        """
    @property
    def name(self, /) -> str: ...

@final
class Policy:
    """
    A policy that `gc=[…]` takes.
    """
    def __new__(cls, /, name: str, make: Any) -> Policy:
        """
        `make` makes what is called with candidates; it is called once for each run.
        """
    @property
    def name(self, /) -> str: ...

@final
class Record:
    """
    What a page says it is.
    """
    def __repr__(self, /) -> str: ...
    @property
    def kind(self, /) -> str:
        """
        What it holds: `data`, `log`, `translation`, `dummy`, `checkpoint`, `trim`, `bad`, or `torn`.
        """
    @property
    def lpn(self, /) -> int:
        """
        The LPN of a host page, or whatever number a metadata page was given.
        """
    @property
    def program(self, /) -> int:
        """
        Which program of the device's life it was.
        """
    @property
    def version(self, /) -> int:
        """
        The version of a host page.
        """
    @property
    def words(self, /) -> list[int] | None:
        """
        The words of a metadata page that was read whole.
        """

@final
class Report:
    """
    What a comparison found.
    """
    def brief(self, /) -> str:
        """
        The same for a page that has a style of its own.
        """
    def flat(self, /) -> str:
        """
        One row per result: columns with their values, as JSON.
        """
    def json(self, /) -> str:
        """
        The JSON of the command line.
        """
    def labels(self, /) -> list[str]:
        """
        What each result is called.
        """
    def page(self, /) -> str:
        """
        A page with tables and plots.
        """
    def text(self, /, verbose: bool) -> str:
        """
        The table and its sentences, as the command line prints them.
        """

@final
class Requests:
    """
    Requests in memory.
    """
    def __len__(self, /) -> int: ...
    def profile(self, /) -> str:
        """
        The workload's profile, as JSON: what `ftlab trace info --json` says of a file.
        """
    def table(self, /) -> Any:
        """
        The columns as an Arrow table.
        """
    def volumes(self, /) -> list[str]:
        """
        Names of the volumes, by number; empty if nobody named them.
        """

def arrow(columns: str) -> Any:
    """
    A table that speaks the Arrow stream interface. A column is JSON: its name, and its values; null is absent.
    """

def check(words: SupportsGetItem[int, str], own: Foreign | None) -> tuple[str, Any | None]:
    """
    What the power cuts of `ftlab check` find of one scheme, as JSON; and the exception that ended them, if one did.
    """

def compare(keys: str, given: SupportsGetItem[int, tuple[str, Requests]], schemes: SupportsGetItem[int, Foreign], policies: SupportsGetItem[int, Policy], tell: Any | None) -> tuple[Report | None, Any | None]:
    """
    Runs a comparison. `keys` are lines `KEY = VALUE` as an experiment file has them, `given` requests in memory by the
    name that they are called by there. The report, if a run began; and the exception that ended it early, if one did.
    """

def devices() -> str:
    """
    The devices, as JSON rows.
    """

def from_arrays(time_ns: Any | None, offset: Any, bytes: Any, op: Any, volume: Any | None) -> Requests:
    """
    Requests from numpy arrays of whole numbers; without times they come as fast as they are served.
    """

def from_arrow(table: Incomplete) -> Requests:
    """
    Requests from a table that speaks the Arrow stream interface; its columns are those of [`from_arrays`].
    """

def generators() -> str:
    """
    The generators and the twins of published traces, as JSON rows.
    """

def keys() -> list[str]:
    """
    The keys that [`compare`] knows.
    """

def load(text: str, name: str) -> Report:
    """
    A report from the JSON of the command line.
    """

def read(keys: str) -> tuple[Requests, str | None]:
    """
    Reads a workload as `compare` with these keys does: a trace file, a generator or a twin. Its requests, and what was
    recognised of a file.
    """

def recordings() -> str:
    """
    The recordings that are on board, as JSON rows.
    """

def reliability(words: SupportsGetItem[int, str]) -> tuple[str, str]:
    """
    What `ftlab reliability` with these words finds: the text for people and the JSON.
    """

def replay(words: SupportsGetItem[int, str], own: Foreign | None) -> list[str]:
    """
    One case of a check again, told line by line.
    """

def reproduce(words: SupportsGetItem[int, str], page: bool, tell: Any | None) -> tuple[str, str | None, str | None, Any | None]:
    """
    What `ftlab reproduce` with these words finds: the text for people, the JSON if there is any, the page if it is
    wanted, and the exception that ended it early, if one did. The page is written too, if the words name a file.
    """

def schemes() -> str:
    """
    The schemes, as JSON rows.
    """

def __getattr__(name: str) -> Incomplete: ...
