"""Files: tables in many formats, columns, models."""
