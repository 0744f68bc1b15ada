"""``python -m ordinalgp`` is the command ``ordinalgp``."""

from ordinalgp.cli.main import main

if __name__ == "__main__":
    main()
