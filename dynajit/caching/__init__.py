"""The disk cache. Imports no torch."""
