"""The engine's doors: the step loop's thread, the OpenAI routes, health, the admin port, start and drain."""
