"""``python -m ordinalgp.benchmark NAME``: the command alone."""

from ordinalgp.cli.benchmark import main

if __name__ == "__main__":
    main()
