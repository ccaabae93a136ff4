"""An audit by a few labels: which rows to label, and what their labels say."""
