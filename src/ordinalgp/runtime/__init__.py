"""Files and other services of the running program."""
