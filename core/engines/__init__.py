"""Engines: the protocol in `base`, one file per engine, `load` by name."""
