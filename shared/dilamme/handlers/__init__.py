"""The interface to users' code: the registry, the context of a job, the signals that a handler raises."""
