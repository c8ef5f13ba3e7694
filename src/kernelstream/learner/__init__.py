"""The record of parts, its state, and the one loop that learns. Begin with `learn`."""
