"""Scores: what a row's features say of its class, by classifiers that did not see it."""
