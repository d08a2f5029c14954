"""Jacobians and Hessians as sparse matrices: exact patterns, values filled by compiled code."""

from tensorad.sparse.matrix import SparseJacobian, sparse_hessian, sparse_jacobian

__all__ = ["SparseJacobian", "sparse_hessian", "sparse_jacobian"]
