"""What several tests need."""

import pytest

DEVICE = "agrawal08:capacity=64MiB,spare=20%"


@pytest.fixture
def device():
    return DEVICE


def timeless(data):
    """A report's data without wall times."""
    if isinstance(data, dict):
        return {key: timeless(value) for key, value in data.items() if not key.endswith("wall_seconds")}
    return [timeless(value) for value in data] if isinstance(data, list) else data


@pytest.fixture
def spc(tmp_path):
    """A small trace file in the SPC format."""
    path = tmp_path / "t.spc"
    lines = (f"0,{(i * 7919) % 100_000 * 8},4096,{'r' if i % 3 == 0 else 'w'},{i * 0.001:.6f}" for i in range(3000))
    path.write_text("\n".join(lines) + "\n")
    return path
