"""Programs handed to a container on its command line; no image holds them."""
