"""OFormer: self-attention among tokens of the input, cross-attention of queries to them.

Z. Li, K. Meidani, A. Barati Farimani, *Transformer for Partial Differential Equations' Operator
Learning*, Transactions on Machine Learning Research (2023), arXiv:2205.13671. What the text leaves
open is from the authors' code (github.com/BaratiLab/OFormer, revision f1111b3).
"""
