"""From a trace to the code that runs instead of the frame."""
