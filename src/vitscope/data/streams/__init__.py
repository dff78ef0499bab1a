"""Streams of frames: folders of them, pictures that move, and how they are read."""
