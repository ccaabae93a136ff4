"""The stages of a fit of more than two classes."""
