"""Command line, one module per command; it needs ``ordinalgp[cli]``."""
