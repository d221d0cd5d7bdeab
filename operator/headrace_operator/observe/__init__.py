"""What the engines say: scrapes, their windows, the pods they come from, and the signed calls back."""
