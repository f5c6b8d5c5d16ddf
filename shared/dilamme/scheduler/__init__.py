"""The scheduler function: leads, ticks, and does the chores."""
