"""Steps of states in memory and in a file: whatever is read from them is the same."""

import numpy as np
import pytest

from gradtd import InputError
from gradtd.evaluation.checks import BlockEquations, all_fits
from gradtd.evaluation.step_blocks import MemoryBlocks, StepFile, block_of, join_blocks, take_pieces
from naive import checks
from naive.evaluation import walk


def steps_and_ladder(lam=0.0):
    design, steps = checks.planned(walk(120, 3, cut=6), lam=lam)
    return steps, design.ladder


def stored(steps, folder, in_memory, groups=40):
    made = StepFile(folder, steps.rows.table, groups, 0.0 if steps.traced is None else steps.traced.lam, in_memory)
    for first, last in ((0, 50), (50, 120)):
        made.add(block_of(steps.cut(first, last), np.arange(first, last) % groups))
    made.finish()
    return made


@pytest.mark.parametrize("lam", [0.0, 0.5])
def test_a_file_says_what_memory_says(lam, tmp_path):
    """Values do not depend on groups; errors of 40 groups are about those of 120 episodes."""
    steps, ladder = steps_and_ladder(lam)
    kept = stored(steps, tmp_path, 2**21)
    assert not any(tmp_path.iterdir())
    written = stored(steps, tmp_path, 10)
    assert any(tmp_path.iterdir())
    assert kept.n_steps == written.n_steps == len(steps)
    fits = [all_fits(BlockEquations(source, ladder, 40), 0.3) for source in (kept, written)]
    whole = all_fits(BlockEquations(MemoryBlocks(steps), ladder), 0.3)
    for kind in ("plain", "traced", "robust", "timed"):
        for name, fit in getattr(whole, kind).items():
            one, other = (getattr(made, kind)[name] for made in fits)
            assert one.value == pytest.approx(fit.value, rel=1e-9)
            assert (one.value, one.error, one.bias) == (other.value, other.error, other.bias)
            assert one.error == pytest.approx(fit.error, rel=0.3)


def test_tenths_hold_every_piece_once(tmp_path):
    steps, _ = steps_and_ladder()
    for source in (MemoryBlocks(steps), stored(steps, tmp_path, 2**21)):
        read = list(source.of_tenths())
        assert sorted({g for g, _ in read}) == list(range(10))
        assert sum(len(one) for _, one in read) == len(steps)
        assert sum(one.reward.sum() for _, one in read) == pytest.approx(steps.reward.sum())
        (g, some), *_ = source.of_tenths([4])
        assert g == 4
        assert some.begins[-1] == len(some)


def test_pieces_taken_and_joined_are_those_of_the_block():
    steps, _ = steps_and_ladder()
    block = block_of(steps, np.arange(120))
    joined = join_blocks([take_pieces(block, np.arange(k, 120, 2)) for k in (0, 1)])
    assert joined.n_steps == block.n_steps
    for place, piece in enumerate((*range(0, 120, 2), *range(1, 120, 2))):
        for one, other in zip(
            take_pieces(joined, np.array([place])), take_pieces(block, np.array([piece])), strict=True
        ):
            assert (one == other).all()


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    steps, _ = steps_and_ladder()
    with pytest.raises(InputError, match=r"cannot write to .*none'.* Set TMPDIR"):
        stored(steps, tmp_path / "none", 0)
