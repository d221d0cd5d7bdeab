"""What `local/demo` shows: Headrace at work on a real Kubernetes, chapter by chapter.

Each chapter is a function of a `Stage` that tells as it goes and returns what was seen as facts, so that a
test asserts the very story that a reader watches. What does not come out as told is a `StoryFailed`.
"""
