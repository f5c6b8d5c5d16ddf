"""One module a verb. A use case opens the transaction; nothing below it does."""
