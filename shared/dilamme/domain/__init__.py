"""The pure core: no I/O, no clock, no randomness; `now` and `rand` are arguments."""
