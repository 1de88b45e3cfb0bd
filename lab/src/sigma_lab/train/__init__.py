"""Learn a steering (W, P and g) from a recorded stream, through a frozen center, in three stages.

``train`` runs all of it. ``data`` draws training episodes. ``phi`` learns W without the language model
(stage 1), and ``run`` takes gradient steps through the model (stages 2 and 3). ``learner`` is the graph from
labels to utilities, and sets where P and g start; ``objective`` is the memory in parallel form, and losses.
"""

from sigma_lab.train.train import SteeringSettings, TrainedSteering, train_steering

__all__ = ["SteeringSettings", "TrainedSteering", "train_steering"]
