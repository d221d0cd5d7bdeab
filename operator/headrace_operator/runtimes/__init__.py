"""The engines that a service can run on: one small adapter each. Pure."""
