"""Models that say more of an image than its class: a backbone that anatomy knows, a neck, a head for the task."""
