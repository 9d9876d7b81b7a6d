"""What is compiled, from the bottom up.

`engine` turns plain functions into compiled ones; `records`, `random`, `linalg` and `rows` are its building blocks;
`traces` makes eligibility traces; `buffers`, `splits` and `draws` say which stored steps a rule gets; `loop` is the one
loop, `plan` what it works on.
"""
