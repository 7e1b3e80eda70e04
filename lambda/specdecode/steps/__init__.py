"""The Lambda handlers of the pipeline: parse the event, call a tested function, return a small answer."""
