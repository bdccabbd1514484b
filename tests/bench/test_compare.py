"""Before and after, in two checkouts."""

import subprocess
import sys
from pathlib import Path

import pytest

from hydrophone.bench.compare import ratio

ROOT = Path(__file__).parents[2]


def test_a_ratio_has_an_interval_around_it() -> None:
    middle, low, high = ratio([2.0, 2.2, 1.8, 2.1, 2.0], [1.0, 1.0, 1.0, 1.0, 1.0])
    assert middle == pytest.approx(2.0)
    assert 1.8 <= low <= middle <= high <= 2.2 + 1e-9


@pytest.mark.soak
def test_a_checkout_is_as_fast_as_itself() -> None:
    command = [sys.executable, "-m", "hydrophone.bench.compare", str(ROOT), "local_engine", "--case", "^fir, 100 keys"]
    done = subprocess.run([*command, "--runs", "5"], capture_output=True, text=True, timeout=600)
    rows = [line for line in done.stdout.splitlines() if line.startswith("| local_engine")]
    assert len(rows) == 1 and "ANSWERS DIFFER" not in rows[0], done.stdout + done.stderr
