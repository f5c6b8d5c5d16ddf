"""The worker function: claims jobs, runs their handlers, settles them."""
