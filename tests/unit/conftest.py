"""Hypothesis for the unit tests: no limit on an example's time, since no test here is about speed.

TESTS_EXAMPLES: how many examples a test has that names no number itself; `make test-fast` takes few.
"""

import os

from hypothesis import settings

settings.register_profile("unit", deadline=None, max_examples=int(os.environ.get("TESTS_EXAMPLES", "100")))
settings.load_profile("unit")
