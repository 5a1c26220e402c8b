"""`kilonova run scheduler`: the command (`command`), SchedulerConfiguration (`config`) and the
process (`process.run_scheduler`)."""
