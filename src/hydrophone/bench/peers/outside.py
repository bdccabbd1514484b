"""GNU Octave and R, where they are installed: a script reads the samples, times the call itself, and prints count and sums."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hydrophone.bench.harness import Answer, Timed

Samples = npt.NDArray[np.float64]

_OCTAVE_READ = (
    "f = fopen('x'); x = fread(f, Inf, 'double'); fclose(f); f = fopen('h'); h = fread(f, Inf, 'double'); fclose(f);"
)
_OCTAVE_SHOW = "s = abs(y(:)); printf('%.17g %.17g %.17g %.17g', t, numel(s), sum(s), sum(s .^ 2));"
_R_READ = "x <- readBin('x', 'double', file.size('x') / 8); h <- readBin('h', 'double', file.size('h') / 8);"
_R_SHOW = "s <- Mod(as.vector(y)); cat(sprintf('%.17g %.17g %.17g %.17g', t, length(s), sum(s), sum(s^2)));"


@cache
def say_absent(name: str, reason: str) -> None:
    """Say once why a peer is not in the table."""
    print(f"without {name}: {reason}", file=sys.stderr)


def tumbling_fft(samples: Samples, size: int) -> dict[str, Callable[[], Answer | Timed]]:
    """Spectra of windows that do not overlap, by the programs that are there."""
    half = size // 2 + 1
    octave = f"tic; y = fft(reshape(x, {size}, [])); y = y(1:{half}, :); t = toc;"
    r = f"t <- system.time(y <- mvfft(matrix(x, nrow = {size}))[1:{half}, ])[['elapsed']];"
    return _peers(octave, r, samples, np.zeros(0))


def fir(samples: Samples, taps: Samples) -> dict[str, Callable[[], Answer | Timed]]:
    """One signal, filtered."""
    octave = "tic; y = filter(h, 1, x); t = toc;"
    before = "c(rep(0, length(h) - 1), x)"
    r = f"t <- system.time(y <- filter({before}, h, sides = 1)[length(h):(length(h) + length(x) - 1)])[['elapsed']];"
    return _peers(octave, r, samples, taps)


def _peers(octave: str, r: str, x: Samples, h: Samples) -> dict[str, Callable[[], Answer | Timed]]:
    found: dict[str, Callable[[], Answer | Timed]] = {}
    for name, program, options, code in (
        ("GNU Octave", "octave-cli", ["--quiet", "--no-init-file", "--eval"], _OCTAVE_READ + octave + _OCTAVE_SHOW),
        ("R", "Rscript", ["--vanilla", "-e"], _R_READ + r + _R_SHOW),
    ):
        path = shutil.which(program)
        if path is None:
            say_absent(name, f"there is no {program} on this machine")
        else:
            found[name] = partial(_run, [path, *options, code], x, h)
    return found


def _run(command: list[str], x: Samples, h: Samples) -> Timed:
    with tempfile.TemporaryDirectory() as folder:
        x.tofile(Path(folder) / "x")
        h.tofile(Path(folder) / "h")
        shown = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout
    seconds, *answer = (float(v) for v in shown.split())
    return Timed(seconds, answer)
