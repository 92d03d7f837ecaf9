"""Defects in other people's run files and Dockerfiles: readers by format, rules by what is said."""
