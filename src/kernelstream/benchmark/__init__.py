"""The public benchmark: many learners on the same streams, each row predicted, then learned."""
