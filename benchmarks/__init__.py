"""Runnable comparisons, each printing one table."""
