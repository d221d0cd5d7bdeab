"""Models in GGUF files: checked, then rewritten once as the Hugging Face directory that all else reads."""
