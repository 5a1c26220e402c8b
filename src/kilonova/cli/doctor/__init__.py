"""`kilonova doctor`: checks of this machine and of a cluster.

A **fact** is something that was observed (`facts`), a **finding** a judgement of it with a fix
(`kilonova.component.finding`). `collector.collect_facts` does all I/O; `checks.evaluate_facts` and
the modules that it calls are pure; `report_text` formats findings.
"""
