"""Our own models, registered in timm."""
