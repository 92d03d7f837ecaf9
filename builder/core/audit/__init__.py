"""The audit: what a lock's wheels, a folder of wheels or an image really hold.

One engine for all three: whatever is read becomes a `Tree` of files with their owners, and every
rule is a function of that tree. Reading is the edge's, judging is here, and nothing is ever run.
"""
