"""A tiny real vision-language model, trained on drawn scenes, for tests that assert meaning."""
