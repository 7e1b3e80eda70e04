"""The artifact bucket, how pods see it, and the code that they fetch from it."""
