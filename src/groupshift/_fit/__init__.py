"""The stages of a fit."""
