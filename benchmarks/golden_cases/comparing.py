"""Two recordings beside each other: what differs, in units that mean something, and whether that is too much."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from golden_cases.recording import read

VALUE, ENDS = 1e-8, 1e-6
"""How far a value in memory may move, of its scale, and an end of its interval, of the width."""
AGREE = 0.95
"""Part of the verdicts in parts that must be the same."""
SENTENCES = ("reasons", "warnings", "notes")
EXPECTED: dict[str, str] = {}
"""Cases that may differ, by the beginning of their name, and why. They are listed and do not fail."""


class Shift(NamedTuple):
    """How far an evaluation moved: the value by its scale and by the width, the ends by the width."""

    name: str
    by_scale: float
    value: float
    low: float
    high: float


def compare(old: Path, new: Path, strict: bool) -> int:
    """Print every kind that both folders hold; 1 where something differs that must not."""
    failures = 0
    for kind, judge in (("weights", weights), ("memory", memory), ("parts", parts)):
        before, after = read(old, kind), read(new, kind)
        if not before[0] or not after[0]:
            print(f"\n## {kind}: not recorded in {'the old' if not before[0] else 'the new'} folder")
            continue
        absent = [name for name in before[0] if name not in after[0]]
        print(f"\n## {kind}: {len(before[0])} cases, {len(absent)} of them not in the new recording")
        failures += judge(before, after, strict)
    print(f"\n{failures} failures" if failures else "\nno failures")
    return int(failures > 0)


def expected(name: str) -> str:
    """Why a case may differ; empty where it may not."""
    return next((reason for start, reason in EXPECTED.items() if name.startswith(start)), "")


def fail(name: str, what: str) -> int:
    """Print a difference; 1 unless it is expected."""
    reason = expected(name)
    print(f"  {'expected' if reason else 'FAILED':9s}{name}: {what}{f' ({reason})' if reason else ''}")
    return int(not reason)


def weights(before: Any, after: Any, strict: bool) -> int:
    """Every array by its digest."""
    count = failures = 0
    for name in [name for name in before[0] if name in after[0]]:
        for setting, was in before[0][name].items():
            count += 1
            now = after[0][name].get(setting, "not recorded")
            if was == now:
                continue
            if was.startswith("refused") and now.startswith("refused"):
                print(f"  sentence {name}, {setting}:\n    - {was}\n    + {now}")
                continue
            failures += fail(f"{name}, {setting}", distance(before[1], after[1], f"{name}|{setting}", now))
    print(f"  {count} arrays compared, {failures} differ")
    return failures


def distance(before: Mapping[str, Any], after: Mapping[str, Any], key: str, now: str) -> str:
    """How far two arrays are apart, in words."""
    if key not in before or key not in after:
        return now if key not in after else "was refused, is not any more"
    was, found = before[key], after[key]
    if was.shape != found.shape or was.dtype != found.dtype:
        return f"shape {was.shape} {was.dtype} is now {found.shape} {found.dtype}"
    gap = float(np.nanmax(np.abs(was.astype(float) - found.astype(float)), initial=0.0))
    return f"the bytes differ, by {gap:.1e} at most; the largest number is {np.nanmax(np.abs(was)):.1e}"


def pairs(before: Any, after: Any) -> Iterator[tuple[str, Any, Any]]:
    """Every evaluation of both recordings, those of several targets one by one; or what each says in its place."""
    for name in [name for name in before[0] if name in after[0]]:
        was, now = before[0][name], after[0][name]
        if any(word in told for told in (was, now) for word in ("refused", "crashed")):
            yield name, was, now
            continue
        for target in was:
            if target != "compared":
                yield (name if target == "target" else f"{name}, {target}"), was[target], now.get(target, {})


def stopped(told: Mapping[str, Any]) -> str:
    """The sentence that a case ended with instead of an answer."""
    return next((f"{word}: {told[word]}" for word in ("refused", "crashed") if word in told), "")


def shift(name: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> Shift:
    """Numbers of two evaluations; what is not finite in both alike does not count."""
    numbers = [(number(a), number(b)) for a, b in zip(answer(was), answer(now), strict=True)]
    (value, _), (low, _), (high, _) = numbers
    width = high - low if np.isfinite(high - low) and high > low else 0.0
    scale = max(abs(value) if np.isfinite(value) else 0.0, width, 1e-12)
    gaps = [0.0 if a == b or (np.isnan(a) and np.isnan(b)) else abs(a - b) for a, b in numbers]
    gaps = [np.inf if np.isnan(gap) else gap for gap in gaps]
    unit = max(width, 1e-8 * scale)
    return Shift(name, gaps[0] / scale, gaps[0] / unit, gaps[1] / unit, gaps[2] / unit)


def answer(told: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    return told["value"], told["interval"][0], told["interval"][1]


def number(value: Any) -> float:
    return float("nan") if value is None else float(value)


def memory(before: Any, after: Any, strict: bool) -> int:
    """Verdicts, values and intervals; then sentences and all other numbers."""
    failures, shifts, texts, same = 0, [], Counter(), 0
    for name, was, now in pairs(before, after):
        if stopped(was) or stopped(now):
            failures += refusals(name, was, now)
            continue
        moved = shift(name, was, now)
        shifts.append(moved)
        if was["verdict"] != now["verdict"]:
            why = f"; {'; '.join(now['reasons'])[:160]}"
            failures += fail(name, f"{was['verdict']} is now {now['verdict']}{why}")
        elif moved.by_scale > VALUE:
            failures += fail(name, f"the value {was['value']} is now {now['value']}, {moved.by_scale:.1e} of its scale")
        elif max(moved.low, moved.high) > ENDS:
            failures += fail(name, f"the interval {was['interval']} is now {now['interval']}")
        else:
            same += 1
        count_sentences(texts, name, was, now)
        failures += other_numbers(name, was, now) if strict else 0
    failures += comparisons(before[0], after[0])
    print(f"  {same} of {len(shifts)} evaluations have the same verdict, value and interval")
    largest(shifts)
    show_sentences(texts)
    if not strict:
        rest = [name for name, was, now in pairs(before, after) if not stopped(was) and not stopped(now)]
        moved_rows = [name for name in rest if _rows_differ(name, before, after)]
        print(f"  other rows and diagnostics differ in {len(moved_rows)} evaluations; --strict lists them")
    return failures


def comparisons(before: Mapping[str, Any], after: Mapping[str, Any]) -> int:
    """Paired differences and ranks of several targets, to 1e-6."""
    failures = 0
    for name, was in before.items():
        now = after.get(name, {})
        if "compared" not in was or "compared" not in now:
            continue
        moved = [
            what
            for group in ("differences", "ranking")
            for a, b in zip(was["compared"][group], now["compared"][group], strict=True)
            for what in _entries(f"{group}, ", a, b)
        ]
        failures += fail(f"{name}, compared", "; ".join(moved)) if moved else 0
    return failures


def _rows_differ(name: str, before: Any, after: Any) -> bool:
    first, _, target = name.partition(", ")
    was, now = before[0], after[0]
    key, of = (name, "target") if name in was else (first, target)
    return bool(list(differing(was[key][of], now[key][of])))


def refusals(name: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> int:
    """A case that stopped in a tree: in both is a sentence to read, in one of them a failure."""
    if bool(stopped(was)) != bool(stopped(now)) or stopped(was).split(":")[0] != stopped(now).split(":")[0]:
        return fail(name, f"{stopped(was) or 'answered'}\n      is now {stopped(now) or 'answered'}")
    if stopped(was) != stopped(now):
        print(f"  sentence {name}:\n    - {stopped(was)}\n    + {stopped(now)}")
    return 0


def parts(before: Any, after: Any, strict: bool) -> int:
    """Verdicts that agree, and the largest differences in widths."""
    agree, total, shifts, texts, failures = 0, 0, [], Counter(), 0
    for name, was, now in pairs(before, after):
        if stopped(was) and not stopped(now):
            print(f"  answered {name}: {next(iter(now.values()))['verdict']} (refused before)")
            continue
        total += 1
        if stopped(was) or stopped(now):
            alike = bool(stopped(was)) == bool(stopped(now))
            agree += alike
            if was != now:
                word = "sentence" if alike else "DIFFERS"
                print(f"  {word} {name}:\n    - {stopped(was) or 'answered'}\n    + {stopped(now) or 'answered'}")
            continue
        shifts.append(shift(name, was, now))
        count_sentences(texts, name, was, now)
        if was["verdict"] == now["verdict"]:
            agree += 1
        else:
            print(f"  DIFFERS {name}: {was['verdict']} is now {now['verdict']}; {'; '.join(now['reasons'])[:160]}")
        failures += other_numbers(name, was, now) if strict else 0
    print(f"  verdicts agree on {agree} of {total}, {agree / max(total, 1):.1%} (needed: {AGREE:.0%})")
    largest(shifts)
    show_sentences(texts)
    return failures + int(agree < AGREE * total)


def largest(shifts: list[Shift], count: int = 8) -> None:
    """The evaluations that moved most, in widths of the old interval."""
    moved = sorted(shifts, key=lambda one: -max(one.value, one.low, one.high))[:count]
    if not moved or max(moved[0][1:]) == 0:
        print("  no value and no interval moved")
        return
    print("  | largest differences, in widths | value | low | high | value, of its scale |\n  |---|---|---|---|---|")
    for one in [one for one in moved if max(one[1:]) > 0]:
        print(f"  | {one.name} | {one.value:.1e} | {one.low:.1e} | {one.high:.1e} | {one.by_scale:.1e} |")


def count_sentences(
    texts: Counter[tuple[str, str, str]], name: str, was: Mapping[str, Any], now: Mapping[str, Any]
) -> None:
    """Sentences that came or went, without their numbers, so that alike ones are counted once."""
    for kind in SENTENCES:
        for sign, here, there in (("-", was, now), ("+", now, was)):
            others = {without_numbers(text) for text in there[kind]}
            for text in here[kind]:
                if without_numbers(text) not in others:
                    texts[kind, sign, without_numbers(text)] += 1


def without_numbers(text: str) -> str:
    return "".join("#" if c.isdigit() else c for c in text).replace("##", "#").replace("##", "#")


def show_sentences(texts: Counter[tuple[str, str, str]]) -> None:
    for (kind, sign, text), count in sorted(texts.items()):
        print(f"  {sign} {kind} ({count}): {text}")


def other_numbers(name: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> int:
    """Rows of other methods, checks and diagnostics that differ; how many."""
    found = list(differing(was, now))
    if found:
        print(f"  differs {name}: {'; '.join(found[:6])}{f' and {len(found) - 6} more' if len(found) > 6 else ''}")
    return int(bool(found) and not expected(name))


def differing(was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """What differs in the rows, the checks and the diagnostics, to 1e-6."""
    for group, key in (("estimates", "method"), ("checks", "name")):
        rows, others = ({_label(row, key): row for row in told[group]} for told in (was, now))
        yield from (f"{group} {name} {'gone' if name in rows else 'new'}" for name in rows.keys() ^ others.keys())
        for name in rows.keys() & others.keys():
            yield from _entries(f"{name}.", rows[name], others[name])
    yield from _entries("", was["numbers"], now["numbers"])


def _label(row: Mapping[str, Any], key: str) -> str:
    return f"{row[key]} {row.get('kind', '')}".strip()


def _entries(head: str, was: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in was.keys() | now.keys():
        a, b = was.get(name), now.get(name)
        if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
            if a != b and name not in ("note", "reason", "solved_by"):
                yield f"{head}{name} {a} is now {b}"
        elif isinstance(a, (int, float)) and isinstance(b, (int, float)):
            if abs(a - b) > 1e-6 * max(abs(a), abs(b), 1e-6):
                yield f"{head}{name} {a:.8g} is now {b:.8g}"
        elif a != b:
            yield f"{head}{name} differs"
