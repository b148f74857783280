"""Which way to run an application: predicted from its description and from measured costs, and chosen.

"Revisiting Content-Based Publish/Subscribe" made practical: no one architecture serves all applications, so the numbers
of an application and of a machine decide. Nothing here opens a socket, reads a clock or knows Spark: what costs are is
measured elsewhere (`fieldfare.bench.calibration`), and comes in as values.
"""
