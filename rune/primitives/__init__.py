"""First-order operations: each with its type rule, evaluation, tangent, transpose, batching, lowering."""
