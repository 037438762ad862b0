"""The paper's experiments, and the rivals it measures itself against."""
