"""The report on an evaluation: what was measured, the verdict, and the record that the user gets."""
