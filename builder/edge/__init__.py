"""Effects: one outside thing a file, no decisions."""
