"""What makes the models and other files that the repository holds; not part of the app."""
