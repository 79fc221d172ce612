"""`python -m rooflab …` is the same as `rooflab …`."""

from rooflab.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
