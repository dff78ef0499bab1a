"""Recipes of trainings: what is chosen, what the named ones choose, augmentation and seeds."""
