"""What flows through a model, captured or changed on its way."""
