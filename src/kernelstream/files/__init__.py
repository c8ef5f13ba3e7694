"""Models as files: bytes, parts, checkpoints, and reading whatever was saved."""
