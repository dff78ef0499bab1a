"""Where models come from: timm, torchvision, Hugging Face, a function, a run folder."""
