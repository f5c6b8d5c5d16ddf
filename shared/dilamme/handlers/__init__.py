"""What users' code meets: the registry, the context of a job, the signals that a handler raises."""
