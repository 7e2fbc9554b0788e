"""The object detector that the embedded engine uses, from its published weights."""
