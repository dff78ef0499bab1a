"""Training: recipes, the loop, checkpoints that can be resumed."""

from vitscope.recipes.named import RECIPES, get_recipe, hdv, mini
from vitscope.recipes.recipe import Recipe
from vitscope.training.evaluate import Score, evaluate
from vitscope.training.loop import Trained, train
from vitscope.training.recipe_differences import RecipeSummary, describe_recipe
from vitscope.training.setup import TrainOptions
from vitscope.training.steps import TrainingDiverged

__all__ = [
    "RECIPES",
    "Recipe",
    "RecipeSummary",
    "Score",
    "TrainOptions",
    "Trained",
    "TrainingDiverged",
    "describe_recipe",
    "evaluate",
    "get_recipe",
    "hdv",
    "mini",
    "train",
]
