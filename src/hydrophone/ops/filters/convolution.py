"""Convolution tap by tap, compiled: the sums of a sample do not depend on where the data was cut."""

from __future__ import annotations

from typing import Any

from hydrophone.model.compiled import compiled


@compiled
def convolve(values: Any, at: Any, begin: Any, end: Any, lags: Any, taps: Any, channels: int, out: Any) -> None:
    """Every piece of the output from `begin` to `end`; its first sample lies `at` this place of `values`, with its past before it.

    Blocks stay in the first-level cache, and four taps at a time go over each; every sum is still taken tap by tap.
    """
    block, fours = 1024, len(taps) // 4 * 4
    for run in range(len(at)):
        for start in range(begin[run], end[run], block):
            size = min(block, end[run] - start)
            y, here = out[start : start + size], at[run] + start - begin[run]
            for i in range(size):
                y[i] = 0
            for k in range(0, fours, 4):
                x0, x1, x2, x3 = (
                    values[here - lags[k] * channels : here - lags[k] * channels + size],
                    values[here - lags[k + 1] * channels : here - lags[k + 1] * channels + size],
                    values[here - lags[k + 2] * channels : here - lags[k + 2] * channels + size],
                    values[here - lags[k + 3] * channels : here - lags[k + 3] * channels + size],
                )
                t0, t1, t2, t3 = taps[k], taps[k + 1], taps[k + 2], taps[k + 3]
                for i in range(size):
                    y[i] = y[i] + t0 * x0[i] + t1 * x1[i] + t2 * x2[i] + t3 * x3[i]
            for k in range(fours, len(taps)):
                x, t = values[here - lags[k] * channels : here - lags[k] * channels + size], taps[k]
                for i in range(size):
                    y[i] += t * x[i]
