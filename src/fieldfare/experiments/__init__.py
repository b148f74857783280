"""The papers' experiments, run again: what they reported, and what Fieldfare measures, side by side."""
