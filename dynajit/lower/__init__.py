"""Torch-level fx graph to our loop IR."""
