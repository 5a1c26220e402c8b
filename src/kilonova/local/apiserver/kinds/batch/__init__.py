"""Kinds of the group batch: Job, CronJob."""
