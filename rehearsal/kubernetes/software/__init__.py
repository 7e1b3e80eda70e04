"""The cluster's own software, as Helm and the EKS add-ons install it: the pods that take room, and the functions that
then work.
"""
