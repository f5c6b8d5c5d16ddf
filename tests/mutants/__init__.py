"""Deliberate faults, and the tests that must notice them: ``make mutants``."""
