"""The command `dilamme`: an application of your own, from its first file to its deployment."""
