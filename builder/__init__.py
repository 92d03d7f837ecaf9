"""nightlock: lock, build, boot and prove vLLM nightly images before a tag moves."""
