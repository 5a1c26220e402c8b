"""`kilonova why`: the scheduler's explanation of a pod, gang or workload.

`target` resolves the argument to reports (`kilonova.scheduler.library.placement_report`),
`workload_members` finds the gangs and pods of a workload, `answer_text` formats a report, and
`console_explainer` serves explanations to the console.
"""
