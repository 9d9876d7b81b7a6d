"""Products of tall tables by tiles, against NumPy's."""

import numpy as np
import pytest

from gradtd.compiled import engine
from gradtd.compiled.tiles import ACROSS, DOWN, add_product, add_square, room_for


def _maker(fingerprint):
    def run(a, b, first, last, out, square, spot):
        fingerprint  # noqa: B018
        add_product(a, b, first, last, out, spot)
        add_square(a, first, last, square, spot)

    return run


@pytest.mark.parametrize("compile", [True, False])
@pytest.mark.parametrize(("high", "wide"), [(1, 1), (13, 5), (67, 46), (24, 24)])
def test_products_are_added_to_what_is_there(high, wide, compile):
    rng = np.random.default_rng(high)
    a, b = room_for(50, high), room_for(50, wide)
    a[:, :high], b[:, :wide] = rng.standard_normal((50, high)), rng.standard_normal((50, wide))
    a[:, high:] = np.nan  # what stands behind a table is read, and forgotten
    out, square = np.ones((high, wide)), np.ones((high, high))
    run = engine.compiled(_maker, compile=compile)
    for first, last in ((3, 40), (40, 40), (40, 41)):
        run(a, b, first, last, out, square, np.zeros((DOWN, ACROSS)))
    left, right = a[3:41, :high], b[3:41, :wide]
    np.testing.assert_allclose(out, 1 + left.T @ right, rtol=0, atol=1e-12)
    np.testing.assert_allclose(np.tril(square), np.tril(1 + left.T @ left), rtol=0, atol=1e-12)


def test_rows_begin_with_a_vector():
    for columns in (1, 12, 13):
        table = room_for(3, columns)
        assert table.shape == (3, ACROSS * (1 + (columns > 12)))
        assert all(line.ctypes.data % 32 == 0 for line in table)
