"""Data that crosses the borders between processes: frames, descriptors, values as plain data."""
