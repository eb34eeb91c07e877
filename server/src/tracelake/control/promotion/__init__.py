"""LakeGuard: rules, policies, the gate, and its decisions."""
