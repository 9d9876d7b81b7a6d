"""Compiled code, from the bottom up.

`engine` turns plain functions into compiled ones, `cache` keeps their code on disk, `dispatch` chooses functions by the
types of their arguments; `random`, `linalg`, `vectors` and `rows` are the building blocks of rules, `sums` those of
Krylov GTD; `prefetch` and `intrinsics` ask the memory for what comes; `traces` makes eligibility traces; `buffers` and
`draws` say which stored steps a rule gets; `loop` is the one loop, `plan` what it works on, and `sparse_state` how a
rule's vectors are kept where features are sparse.
"""
