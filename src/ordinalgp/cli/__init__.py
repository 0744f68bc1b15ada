"""The command line, one module a command; it needs ``ordinalgp[cli]``."""
