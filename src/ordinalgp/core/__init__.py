"""The mathematics: one inference engine behind every model, numpy and scipy only.

Glossary of the symbols used in this folder (shapes in parentheses):

======== ==========================================================================
f        latent values, f ~ N(h, K)                                          (N,)
h, K     prior mean and prior covariance of f                           (N,), (N, N)
A        projection: each observation sees one linear combination          (M, N)
u        projected latents, u = A f, with prior covariance P = A K A'        (M,)
y        observations: codes 0..r-1 (ordinal) or numbers (Gaussian)          (M,)
counts   how many times each observation was made (sample weights)           (M,)
tau, nu  Gaussian site exp(-tau u^2/2 + nu u) of one copy of an observation  (M,)
w        K^-1 (posterior mean - h), pulled back through A'                   (N,)
R        (P + T^-1)^-1 with T = diag(counts * tau)                         (M, M)
d1..d3   derivatives in the mean of log E[p(y|u)], u ~ N(mean, var)          (M,)
b, sigma thresholds and noise of the ordinal likelihood
theta    unconstrained hyperparameters: [kernel.theta, likelihood.theta]
======== ==========================================================================
"""
