"""Taps of Savitzky-Golay filters, the same bits on every processor: a query with them has one identity wherever it runs."""

from __future__ import annotations

from fractions import Fraction
from math import factorial, inf, lcm


def savgol_taps(size: int, polyorder: int, deriv: int, delta: float) -> list[float]:
    """What ``scipy.signal.savgol_coeffs`` computes by LAPACK, whose last bits depend on the processor; here exact, then rounded once.

    The value at 0 of the derivative of a polynomial with least squares through `size` samples, as weights of these, newest first.

    Examples
    --------
    >>> [round(35 * tap, 12) for tap in savgol_taps(5, 2, 0, 1.0)]
    [-3.0, 12.0, 17.0, 12.0, -3.0]
    """
    if deriv > polyorder:
        return [0.0] * size
    places = range(size // 2, size // 2 - size, -1)
    sums = [sum(k**power for k in places) for power in range(2 * polyorder + 1)]
    normal = [[Fraction(sums[i + j]) for j in range(polyorder + 1)] for i in range(polyorder + 1)]
    weights = _solve(normal, [Fraction(factorial(deriv)) * (i == deriv) for i in range(polyorder + 1)])
    weights = [w / Fraction(delta) ** deriv for w in weights]
    whole = lcm(*(w.denominator for w in weights))
    over = [int(w * whole) for w in weights]
    return [_quotient(sum(n * k**power for power, n in enumerate(over)), whole) for k in places]


def _quotient(a: int, b: int) -> float:
    """The nearest double."""
    try:
        return a / b
    except OverflowError:
        return inf if a > 0 else -inf


def _solve(matrix: list[list[Fraction]], right: list[Fraction]) -> list[Fraction]:
    """Gauss elimination; the matrix is positive definite, so no pivot is 0."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for n, pivot in enumerate(rows):
        pivot[:] = [x / pivot[n] for x in pivot]
        for other in rows:
            if other is not pivot and other[n]:
                other[:] = [x - other[n] * y for x, y in zip(other, pivot, strict=True)]
    return [row[-1] for row in rows]
