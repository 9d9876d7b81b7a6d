"""The report on an evaluation: diagnostics, verdict, and the record that the user gets."""
