"""Adapters between the wire and the session; they decide nothing about a conversation."""
