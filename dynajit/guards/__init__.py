"""Conditions under which a cache entry is valid: what was read while tracing, and how to check it again."""
