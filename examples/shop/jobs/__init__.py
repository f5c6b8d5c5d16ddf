"""The shop's handlers."""
