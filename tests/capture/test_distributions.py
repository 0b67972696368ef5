"""torch.distributions: parameters are checked in the graph, and what is wrong with them is said by Python."""

import torch
from programs import T, program
from torch import distributions

from dynajit.graph.demands import DemandError

distributions.kl_divergence(distributions.Normal(0.0, 1.0), distributions.Normal(0.0, 1.0))  # it remembers the pair


@program(T(3, 2))
def a_normal_distribution(x):
    made = distributions.Normal(x, x.exp())
    z = made.rsample()
    standard = distributions.Normal(torch.zeros_like(x), torch.ones_like(x))
    return z, made.log_prob(z), distributions.kl_divergence(made, standard).sum()


@program(T(3, 2))
def other_distributions(x):
    kinds = distributions.Categorical(logits=x)
    drawn = kinds.sample()
    return drawn, kinds.log_prob(drawn), kinds.entropy(), distributions.Bernoulli(logits=x).log_prob((x > 0).float())


@program(T(3, 2))
def a_parameter_that_is_wrong(x):
    return distributions.Normal(x, -x.exp(), validate_args=True).rsample()


@program(T(3, 2), graphs=(1, 2, 3, 4), breaks="DJ-D001 DJ-D001 | DJ-D001 | DJ-D001 DJ-D001 DJ-D001")
def a_wrong_parameter_after_a_write(x):
    x.mul_(2)
    return distributions.Normal(x, -x.exp(), validate_args=True).rsample()


def test_the_graphs_own_error_is_a_value_error():
    assert issubclass(DemandError, ValueError)


@program(T(3, 2), graphs=(1, 2, 3), breaks="DJ-B017")
def a_wrong_parameter_before_a_write(x):
    made = distributions.Normal(x, -x.exp(), validate_args=True)
    x.mul_(2)
    return made.rsample()
