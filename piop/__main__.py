"""``python -m piop``, which ``torchrun -m piop`` needs."""

from piop.cli import main

if __name__ == "__main__":
    main()
