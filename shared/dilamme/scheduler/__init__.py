"""The scheduler function: leads, ticks, and does the maintenance."""
