"""Pictures and pages. Nothing here runs anything: it draws what it is given."""
