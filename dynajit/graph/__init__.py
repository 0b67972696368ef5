"""The captured graph and what is known of its tensors without running a kernel."""
