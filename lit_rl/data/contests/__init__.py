"""Programming contests: DeepCoder and the tests of its sources."""
