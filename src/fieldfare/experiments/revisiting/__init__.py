""" "Revisiting CBPS", checked: its model against simulated matchers, and five applications run in every way."""
