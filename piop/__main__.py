"""The command ``piop``, also as ``python -m piop``, which ``torchrun -m piop`` needs."""

import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run a command; Ctrl-C while its code is imported ends it as it does later, with 130."""
    try:
        from piop.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
