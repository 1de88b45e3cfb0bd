"""Learn a steering (W, P and g) from a recorded stream, through a frozen center, in three stages.

``train`` runs all of it. ``data`` draws training episodes. ``phi`` learns W without the language model
(stage 1), ``gain`` sets where P and g start, and ``run`` takes gradient steps through the model (stages 2
and 3). ``learner`` is the graph from labels to utilities, with the ``memory`` in parallel form, and ``loss``
what is minimised.
"""

from sigma_lab.train.steering.train import SteeringSettings, TrainedSteering, train_steering

__all__ = ["SteeringSettings", "TrainedSteering", "train_steering"]
