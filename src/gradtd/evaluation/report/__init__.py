"""The report on an evaluation: diagnostics, verdict, and the record that users receive."""
