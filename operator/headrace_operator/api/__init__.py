"""The InferenceService: its models and rules, the CRD made of them, the parsed spec, the status."""
