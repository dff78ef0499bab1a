"""Training: recipes, the loop, checkpoints that can be resumed."""

from vitscope.training.evaluate import Score, evaluate
from vitscope.training.loop import Trained, train
from vitscope.training.recipe import RECIPES, Recipe, get_recipe, hdv, mini
from vitscope.training.steps import TrainingDiverged

__all__ = [
    "RECIPES",
    "Recipe",
    "Score",
    "Trained",
    "TrainingDiverged",
    "evaluate",
    "get_recipe",
    "hdv",
    "mini",
    "train",
]
