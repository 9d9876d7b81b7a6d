"""Compiled code, from the bottom up.

`engine` turns plain functions into compiled ones, `cache` keeps their code on disk, `dispatch` chooses functions by the
types of their arguments; `random`, `linalg`, `vectors` and `rows` are the building blocks of rules, `sums` those of
Krylov GTD; `prefetch` and `intrinsics` load memory ahead of use; `traces` computes eligibility traces; `buffers` and
`draws` choose the stored steps of a rule; `loop` is the one loop, `plan` has its records, and `sparse_state` stores a
rule's vectors if features are sparse.
"""
