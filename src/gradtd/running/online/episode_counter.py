"""Numbers episodes as steps arrive."""

from __future__ import annotations

from gradtd.compiled.online import EPISODE, OVER
from gradtd.core.arrays import Integers
from gradtd.core.checks import InputError
from gradtd.core.stream import episode_numbers


class EpisodeCounter:
    """Numbers the episodes 0, 1, ... as their steps arrive; ``counts`` has the latest and whether it has ended."""

    def __init__(self, counts: Integers) -> None:
        self.counts = counts
        self.label: int | None = None  # the user's number of an episode, and whether it is the current one
        self.labelled = False

    @property
    def number(self) -> int:
        """The number of the latest episode, -1 where there is none."""
        return int(self.counts[EPISODE])

    @property
    def over(self) -> bool:
        """Whether the next step begins an episode."""
        return bool(self.counts[OVER])

    def restore(self, number: int, label: int | None, labelled: bool, over: bool) -> None:
        self.counts[EPISODE], self.counts[OVER], self.label, self.labelled = number, over, label, labelled

    def begin_step(self, episode: int | None) -> None:
        """Whether a step with this user-given episode number begins an episode."""
        if episode is not None:
            self._check(episode)
            goes_on = self.labelled and episode == self.label
            self.label, self.labelled = episode, True
            self.counts[OVER] = not goes_on
        else:
            self.labelled = self.labelled and not self.over

    def _check(self, episode: int) -> None:
        if self.label is not None and (episode < self.label or (episode == self.label and not self.labelled)):
            raise InputError(
                f"episode {episode} came back, the latest was {self.label}: the steps of an episode must be contiguous "
                "and episode numbers must not fall; leave episode out to have them counted."
            )

    def numbers_of(self, episode: Integers, ends: bool) -> Integers:
        """Episode numbers of a part of a log: its first step continues the latest episode, unless that one has
        ended.
        """
        self.begin_step(None)
        first = self.number + self.over
        numbers: Integers = first + episode_numbers(episode)
        self.counts[EPISODE], self.counts[OVER] = numbers[-1], ends
        self.labelled = self.labelled and self.number == first
        return numbers

    def cut(self) -> None:
        """Start a new episode although the latest one was not ended."""
        self.counts[OVER], self.labelled = 1, False
