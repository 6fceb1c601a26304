from hypothesis import settings

# A shared machine can stall any example for longer than hypothesis' deadline of 200 ms.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
