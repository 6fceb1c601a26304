"""DetailCaps-4870: detailed captions, scored and used to judge metrics."""
