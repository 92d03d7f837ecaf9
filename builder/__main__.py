"""`python -m builder` is `nightlock`."""

from builder.cli import main

if __name__ == "__main__":
    main()
