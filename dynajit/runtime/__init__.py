"""From text to something that runs: toolchain, loading, launching."""
