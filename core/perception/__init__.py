"""What the embedded engine sees with."""
