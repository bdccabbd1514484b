"""GNU Octave and R, where they are installed: a script reads the samples, times call and sums itself, and prints them.

As with every other way, the clock runs for the call and for the sums that stand for its answer, not for reading the samples or starting
the program. The call is made once before, so that plans of transforms and fresh memory are behind it.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hydrophone.bench.harness import Answer, Timed

Samples = npt.NDArray[np.float64]

_OCTAVE_READ = (
    "f = fopen('x'); x = fread(f, Inf, 'double'); fclose(f); f = fopen('h'); h = fread(f, Inf, 'double'); fclose(f);"
)
_OCTAVE = (
    "for turn = 1:2; clear y s; tic; {call} s = abs(y(:)); a = [numel(s), sum(s), sum(s .^ 2)]; t = toc; end;"
    "printf('%.17g ', t, a);"
)
_R_READ = "x <- readBin('x', 'double', file.size('x') / 8); h <- readBin('h', 'double', file.size('h') / 8);"
_R = (
    "for (turn in 1:2) {{ from <- Sys.time(); {call} s <- Mod(as.vector(y)); a <- c(length(s), sum(s), sum(s^2));"
    "t <- as.numeric(difftime(Sys.time(), from, units = 'secs')) }}; cat(sprintf('%.17g', c(t, a)));"
)


@cache
def say_absent(name: str, reason: str) -> None:
    """Say once why a peer is not in the table."""
    print(f"without {name}: {reason}", file=sys.stderr)


def tumbling_fft(samples: Samples, size: int) -> dict[str, Callable[[], Answer | Timed]]:
    """Spectra of windows that do not overlap, by the programs that are there."""
    half = size // 2 + 1
    octave = f"y = fft(reshape(x, {size}, []))(1:{half}, :);"
    r = f"y <- mvfft(matrix(x, nrow = {size}))[1:{half}, ];"
    return _peers({"GNU Octave": octave, "R": r}, samples, np.zeros(0))


def fir(samples: Samples, taps: Samples) -> dict[str, Callable[[], Answer | Timed]]:
    """One signal, filtered; with many taps also by Octave's function for that, which transforms blocks."""
    calls = {"GNU Octave": "y = filter(h, 1, x);"}
    if len(taps) >= 256:
        calls["GNU Octave, fftfilt"] = "y = fftfilt(h, x);"
    # R's filter gives nothing until all taps have a sample.
    calls["R"] = (
        "y <- stats::filter(c(numeric(length(h) - 1), x), h, sides = 1)[seq(length(h), length.out = length(x))];"
    )
    return _peers(calls, samples, taps)


def correlate(samples: Samples, keys: int, pattern: Samples) -> dict[str, Callable[[], Answer | Timed]]:
    """A column for each key; R filters one at a time, which takes a minute from a million keys on."""
    calls = {"GNU Octave": f"y = filter(h, 1, reshape(x, [], {keys}));"}
    if keys <= 100_000:
        one = "stats::filter(c(numeric(length(h) - 1), v), h, sides = 1)[seq(length(h), length.out = length(v))]"
        calls["R"] = f"y <- apply(matrix(x, ncol = {keys}), 2, function(v) {one});"
    return _peers(calls, samples, pattern[::-1].copy())


def interpolate_add_filter(
    slow: Samples, fast: Samples, keys: int, low: float, high: float
) -> dict[str, Callable[[], Answer | Timed]]:
    """A column for each key, the slow samples four beats apart; R interpolates one key at a time."""
    few, beats = f"0:{len(slow) // keys - 1}", f"(0:{len(fast) // keys - 1}) / 4"
    octave = f"y = interp1({few}, reshape(x, [], {keys}), {beats}) + reshape(h, [], {keys});"
    calls = {"GNU Octave": f"{octave} y = y(y < {low} | y > {high});"}
    if keys <= 100_000:
        lines = f"apply(matrix(x, ncol = {keys}), 2, function(v) approx({few}, v, {beats})$y)"
        calls["R"] = f"y <- as.vector({lines}) + h; y <- y[y < {low} | y > {high}];"
    return _peers(calls, slow, fast)


def overlap_add(samples: Samples, keys: int, size: int, hop: int) -> dict[str, Callable[[], Answer | Timed]]:
    """The windows of one key at a time as the columns of a matrix, to their spectra and back, added up."""
    count = (len(samples) // keys - size) // hop + 1
    length = (count - 1) * hop + size
    octave = (
        f"m = reshape(x, [], {keys}); at = (1:{size})' + (0:{count - 1}) * {hop}; y = zeros({length}, {keys});"
        f"for k = 1:{keys}; w = real(ifft(fft(m(:, k)(at)))); y(:, k) = accumarray(at(:), w(:)); end;"
    )
    r = (
        f"m <- matrix(x, ncol = {keys}); at <- outer(1:{size}, 0:{count - 1} * {hop}, '+'); y <- matrix(0, {length}, {keys});"
        f"for (k in 1:{keys}) {{ w <- Re(mvfft(mvfft(matrix(m[at, k], {size})), inverse = TRUE)) / {size};"
        f"for (i in 1:{size}) {{ to <- at[i, ]; y[to, k] <- y[to, k] + w[i, ] }} }};"
    )
    return _peers({"GNU Octave": octave, "R": r}, samples, np.zeros(0))


def _peers(calls: Mapping[str, str], x: Samples, h: Samples) -> dict[str, Callable[[], Answer | Timed]]:
    found: dict[str, Callable[[], Answer | Timed]] = {}
    for name, call in calls.items():
        program, *options = ("Rscript", "--vanilla", "-e") if name == "R" else ("octave-cli", "--norc", "--eval")
        code = _R_READ + _R.format(call=call) if name == "R" else _OCTAVE_READ + _OCTAVE.format(call=call)
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
