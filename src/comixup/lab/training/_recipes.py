"""The recipes: the paper's experiments, then our own."""

from __future__ import annotations

from comixup.lab.training._paper_recipes import PAPER_RECIPES
from comixup.lab.training._small_recipes import OWN_RECIPES

RECIPES = {recipe.name: recipe for recipe in (*PAPER_RECIPES, *OWN_RECIPES)}
"""Every recipe by name."""
