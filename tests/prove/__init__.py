"""What the product stands: faults, bad input, strangers, scale. `python -m tests.prove` tries it and writes it down.

    python -m tests.prove                                  # everything (`make prove`)
    python -m tests.prove faults --seed 3 --cases 50       # one section, so many cases of each kind
    python -m tests.prove input --only pictures --seed 3   # one kind of cases
    python -m tests.prove --write docs/reliability.md      # the table, from what the last runs have written down

A section is a module `tests.prove.NAME` with a function `kinds()` that gives its kinds of cases (`record.Kind`); or
with a function `rows(trial)` that yields finished rows (`record.Row`), where cases are not tried one by one.
"""
