"""Places: polygons in the plane and circles on the sphere, exact at their boundaries. Knows nothing of conditions."""
