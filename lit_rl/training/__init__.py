"""Training on one process or many, whatever the model: strategies, sharding, sums over ranks, phases."""
