"""Which episode a step belongs to, while steps arrive."""

from __future__ import annotations

from gradtd.core.arrays import Integers
from gradtd.core.checks import InputError
from gradtd.core.stream import episode_numbers


class EpisodeCounter:
    """Numbers the episodes 0, 1, ... as their steps arrive."""

    def __init__(self) -> None:
        self.number = -1
        self.label: int | None = None  # the number that a user gave to an episode, and whether it is the present one
        self.labelled, self.over = False, True

    def number_of(self, episode: int | None, ends: bool) -> int:
        """The episode of the next step; ``ends`` says that nothing follows it."""
        if episode is not None:
            self._check(episode)
            goes_on = self.labelled and episode == self.label
            self.label, self.labelled = episode, True
        else:
            goes_on = not self.over
            self.labelled = self.labelled and goes_on
        self.number += not goes_on
        self.over = ends
        return self.number

    def _check(self, episode: int) -> None:
        if self.label is not None and (episode < self.label or (episode == self.label and not self.labelled)):
            raise InputError(
                f"episode {episode} came back, the latest was {self.label}: the steps of an episode must be contiguous "
                "and episode numbers must not fall; leave episode out to have them counted."
            )

    def numbers_of(self, episode: Integers, ends: bool) -> Integers:
        """The same for a part of a log: its first step goes on with the latest episode, unless that one is over."""
        first = self.number_of(None, ends)
        numbers: Integers = first + episode_numbers(episode)
        self.number = int(numbers[-1])
        self.labelled = self.labelled and self.number == first
        return numbers

    def cut(self) -> None:
        """The next step begins an episode, though the latest one was not ended."""
        self.over, self.labelled = True, False
