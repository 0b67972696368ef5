"""Which values share a kernel, and in which order kernels and other calls run."""
