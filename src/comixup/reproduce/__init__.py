"""The paper's tables and figures from runs and measurements."""
