"""One verb a file: each a recipe that reads from top to bottom."""
