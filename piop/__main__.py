"""The command ``piop``, also as ``python -m piop``, which ``torchrun -m piop`` needs."""

import os
import sys
from typing import NoReturn


def main() -> NoReturn:
    """Run a command; Ctrl-C while its code is imported ends it as it does later, with 130.

    Threads that have nothing to do sleep, unless the environment says otherwise: by default those
    of torch wait actively for a while, which takes the time of others where cores are shared.
    OpenMP reads this once, as torch is imported.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        from piop.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
