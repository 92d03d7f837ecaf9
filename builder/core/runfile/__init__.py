"""Run files: one description of a deployment, and a writer for each format."""
