"""The one error that loading a model raises."""


class ModelLoadError(Exception):
    """A model that cannot be served as asked. The message says what is wrong and what to do about it."""
