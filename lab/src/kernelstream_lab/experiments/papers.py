"""The papers whose experiments are reproduced."""

__all__ = ["ISSPA", "NORMA", "PAPERS", "SILK", "SOG", "SVMD"]

SVMD = (
    "S.V.N. Vishwanathan, N.N. Schraudolph, A.J. Smola: Step Size Adaptation in Reproducing Kernel "
    "Hilbert Space. JMLR 7, 2006"
)
ISSPA = (
    "A. Karatzoglou, S.V.N. Vishwanathan, N.N. Schraudolph, A.J. Smola: Step Size-Adapted Online "
    "Support Vector Learning. ISSPA 2005"
)
NORMA = "J. Kivinen, A.J. Smola, R.C. Williamson: Online Learning with Kernels. NIPS 2001"
SILK = (
    "L. Cheng, S.V.N. Vishwanathan, D. Schuurmans, S. Wang, T. Caelli: Implicit Online Learning "
    "with Kernels. NIPS 2006"
)
SOG = "Y. Engel, S. Mannor, R. Meir: Sparse Online Greedy Support Vector Regression. ECML 2002"

PAPERS = [SVMD, ISSPA, NORMA, SILK, SOG]  # in the order in which their experiments are shown
