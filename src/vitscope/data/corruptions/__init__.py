"""Corrupted images: generated at any size, or read from the published sets."""

from vitscope.core.names import FAMILIES as FAMILIES
from vitscope.data.corruptions.cache import clear_cache as clear_cache
from vitscope.data.corruptions.registry import SEVERITIES as SEVERITIES
from vitscope.data.corruptions.registry import TYPES as TYPES
from vitscope.data.corruptions.registry import corrupt as corrupt
