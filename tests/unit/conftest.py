"""Hypothesis for the unit tests: no limit on an example's time, since no test here is about speed."""

from hypothesis import settings

settings.register_profile("unit", deadline=None)
settings.load_profile("unit")
