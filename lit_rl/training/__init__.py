"""What trains a model on one process or many, whatever the model: strategies, sharding, sums over ranks, phases."""
