"""The paper "Revisiting CBPS", checked: its model against simulated matchers, and five applications in every way."""
