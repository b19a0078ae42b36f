"""The paper's comparisons on generated videos."""
