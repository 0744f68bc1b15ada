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

Bibliography of the package; ``docs/papers.md`` says where each formula of the first five is.

.. [Chu05] W. Chu and Z. Ghahramani, "Gaussian processes for ordinal regression", Journal of
   Machine Learning Research 6, 1019-1041, 2005.
.. [Srijith12] P. K. Srijith, S. Shevade and S. Sundararajan, "A probabilistic least squares
   approach to ordinal regression", AI 2012: Advances in Artificial Intelligence, LNCS 7691, 2012.
.. [Wang10] R. Wang and S. J. McKenna, "Gaussian process learning from order relationships using
   expectation propagation", International Conference on Pattern Recognition, 2010.
.. [Yu06] S. Yu, K. Yu, V. Tresp and H.-P. Kriegel, "Collaborative ordinal regression",
   International Conference on Machine Learning, 2006. Equations, sections and tables are numbered
   as in the shorter text of the same title by the first three authors.
.. [Li18] C. Li and M. de Rijke, "Incremental sparse Bayesian ordinal regression", Neural Networks
   106, 294-302, 2018.
.. [Bickford23] F. Bickford Smith, A. Kirsch, S. Farquhar, Y. Gal, A. Foster and T. Rainforth,
   "Prediction-oriented Bayesian active learning", AISTATS 2023.
.. [Chu07] W. Chu and S. S. Keerthi, "Support vector ordinal regression", Neural Computation 19,
   792-815, 2007.
.. [Demsar06] J. Demšar, "Statistical comparisons of classifiers over multiple data sets", Journal
   of Machine Learning Research 7, 1-30, 2006.
.. [Gilmour95] A. R. Gilmour, R. Thompson and B. R. Cullis, "Average information REML: an efficient
   algorithm for variance parameter estimation in linear mixed models", Biometrics 51, 1995.
.. [Gu15] B. Gu, V. S. Sheng, K. Y. Tay, W. Romano and S. Li, "Incremental support vector learning
   for ordinal regression", IEEE Transactions on Neural Networks and Learning Systems 26, 2015.
.. [Higham02] N. J. Higham, "Accuracy and stability of numerical algorithms", 2nd edition, SIAM,
   2002.
.. [Houlsby11] N. Houlsby, F. Huszar, Z. Ghahramani and M. Lengyel, "Bayesian active learning for
   classification and preference learning", arXiv:1112.5745, 2011.
.. [Nocedal06] J. Nocedal and S. J. Wright, "Numerical optimization", 2nd edition, Springer, 2006.
.. [Radhakrishnan24] A. Radhakrishnan, D. Beaglehole, P. Pandit and M. Belkin, "Mechanism for
   feature learning in neural networks and backpropagation-free machine learning models", Science
   383, 1461-1467, 2024.
.. [Rasmussen06] C. E. Rasmussen and C. K. I. Williams, "Gaussian processes for machine learning",
   MIT Press, 2006.
.. [Riihimaki10] J. Riihimäki and A. Vehtari, "Gaussian processes with monotonicity information",
   AISTATS 2010.
.. [Shashua03] A. Shashua and A. Levin, "Ranking with large margin principle: two approaches",
   Advances in Neural Information Processing Systems 15, 2003.
.. [Snelson06] E. Snelson and Z. Ghahramani, "Sparse Gaussian processes using pseudo-inputs",
   Advances in Neural Information Processing Systems 18, 2006.
.. [Srebro03] N. Srebro and T. Jaakkola, "Weighted low-rank approximations", International
   Conference on Machine Learning, 2003.
.. [Sun10] B.-Y. Sun, J. Li, D. D. Wu, X.-M. Zhang and W.-B. Li, "Kernel discriminant learning for
   ordinal regression", IEEE Transactions on Knowledge and Data Engineering 22, 906-910, 2010.
.. [Vecchia88] A. V. Vecchia, "Estimation and model identification for continuous spatial
   processes", Journal of the Royal Statistical Society B 50, 297-312, 1988.
"""
