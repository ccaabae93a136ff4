"""What users are told: evidence, verdicts, sentences, the report."""
