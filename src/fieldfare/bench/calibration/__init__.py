"""Costs of this machine, measured by running our own parts; what `fieldfare plan` stands on."""
