"""The taps of Savitzky-Golay filters, from whole numbers alone."""

from __future__ import annotations

import math
from fractions import Fraction


def savgol_taps(size: int, polyorder: int, deriv: int, delta: float) -> tuple[float, ...]:
    """Taps that give the derivative, in the middle of `size` samples, of the polynomial through them with least squares.

    ``scipy.signal.savgol_coeffs(size, polyorder, deriv, delta)``, each tap rounded once. Taps are part of the identity of a query,
    and the last bits of a solver in floats depend on the processor.

    Examples
    --------
    >>> savgol_taps(5, 1, 0, 1.0), savgol_taps(3, 2, 1, 0.5)
    ((0.2, 0.2, 0.2, 0.2, 0.2), (1.0, 0.0, -1.0))
    """
    if deriv > polyorder:
        return (0.0,) * size
    half = size // 2
    weights = _weights(half, polyorder, deriv)
    shared = math.lcm(*(w.denominator for w in weights))
    numbers = [int(w * shared) for w in weights]
    scale = math.factorial(deriv) / Fraction(delta) ** deriv
    top, bottom = scale.numerator, scale.denominator * shared
    return tuple(_quotient(_polynomial(numbers, x) * top, bottom) for x in range(half, -half - 1, -1))


def _weights(half: int, polyorder: int, deriv: int) -> list[Fraction]:
    """Coefficients, lowest power first, of the polynomial in a sample's place that is its weight in coefficient `deriv` of the fit.

    They solve the normal equations for one column of the inverse.
    """
    sums = [sum(x**power for x in range(-half, half + 1)) for power in range(2 * polyorder + 1)]
    rows = [
        [*(Fraction(sums[i + j]) for j in range(polyorder + 1)), Fraction(i == deriv)] for i in range(polyorder + 1)
    ]
    for i, pivot in enumerate(rows):
        rows[i] = pivot = [v / pivot[i] for v in pivot]  # positive definite: no pivot is zero
        for j, row in enumerate(rows):
            if j != i and row[i]:
                rows[j] = [v - row[i] * p for v, p in zip(row, pivot, strict=True)]
    return [row[-1] for row in rows]


def _polynomial(coefficients: list[int], x: int) -> int:
    value = 0
    for coefficient in reversed(coefficients):
        value = value * x + coefficient
    return value


def _quotient(top: int, bottom: int) -> float:
    """The nearest double; infinite where none is large enough."""
    try:
        return top / bottom
    except OverflowError:
        return math.inf if top > 0 else -math.inf
