"""Damaged copies of packets are aligned, their receivers clustered, and the packets put together again."""

from __future__ import annotations

import numpy as np
import pytest

from hydrophone.apps.netmon import (
    BEACON,
    CHOSEN,
    RECEIVERS,
    ROOMS,
    WAYS,
    WORDS,
    clusters_of,
    correlation,
    monitor,
    same_clusters,
    shared_errors,
    transmit,
    vote_of,
)


@pytest.mark.parametrize("seed", [2, 3])
def test_clocks_clusters_and_packets_are_found(seed: int) -> None:
    traffic = transmit(2_000, 0.001, seed=seed)
    found = monitor(traffic)
    assert found.lags == tuple(traffic.lags.tolist())
    assert same_clusters(found.clusters, ROOMS)
    assert found.rates[CHOSEN] > 0.88
    assert found.rates[CHOSEN] > max(found.rates["best receiver alone"], found.rates["each copy one vote"])


def test_nothing_is_claimed_where_most_bits_are_noise() -> None:
    found = monitor(transmit(1_024, 0.4, seed=4))
    assert len(found.clusters) == RECEIVERS
    assert max(found.rates[way] for way in (*WAYS, CHOSEN)) < 0.01


def test_votes_are_those_of_single_bits() -> None:
    rng = np.random.default_rng(1)
    copies = rng.integers(-(2**63), 2**63 - 1, (700, RECEIVERS, WORDS))
    copies[rng.random((700, RECEIVERS)) < 0.3] = 0
    for weights in ((1,) * RECEIVERS, (3, 3, 3, 3, 6, 6, 12), (0, 0, 1, 0, 0, 0, 0), (5, 0, 4, 3, 7, 1, 11)):
        bits = np.unpackbits(copies.astype("<i8").view(np.uint8), axis=2)
        weight = np.array(weights) * (copies[:, :, 0] != 0)
        for_one = (bits * weight[:, :, None]).sum(axis=1)
        expected = np.packbits(2 * for_one > weight.sum(axis=1)[:, None], axis=1).view("<i8")
        np.testing.assert_array_equal(vote_of(weights)(copies.reshape(700, -1)), expected)


def test_correlations_are_numpys() -> None:
    rng = np.random.default_rng(2)
    errors = rng.integers(-(2**63), 2**63 - 1, (50, RECEIVERS, WORDS)) & rng.integers(
        -(2**63), 2**63 - 1, (50, RECEIVERS, WORDS)
    )
    errors[:, 3] = errors[:, 2] ^ (errors[:, 4] & errors[:, 5])
    sums = shared_errors((errors ^ BEACON).reshape(50, -1)).sum(axis=0, keepdims=True)
    bits = np.unpackbits(errors.astype("<i8").view(np.uint8), axis=2).transpose(1, 0, 2).reshape(RECEIVERS, -1)
    matrix = correlation(sums).reshape(RECEIVERS, RECEIVERS)
    np.testing.assert_allclose(matrix, np.corrcoef(bits), atol=1e-9)
    assert (2, 3) in clusters_of(matrix)
