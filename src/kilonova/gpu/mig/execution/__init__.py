"""The execution of a plan on a device: `plan_runner` runs plans, `step_runner` their steps.

`device_calls` calls the driver, which blocks; `retries` has the delays after failures, `statistics`
the durations and failures of operations.
"""
