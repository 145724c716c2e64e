"""PIT, the physics-informed transformer: queries attend to sensors, never to each other."""
