"""Standard-library programs that are copied into images; they import nothing of ours."""
