"""Models by name from a Hugging Face hub: which files are taken, how they are checked, where they stand."""
