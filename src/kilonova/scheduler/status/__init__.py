"""Conditions, events and status of gangs, pods, PodGroups and Queues.

A **scheduling result** reports whether a gang is placed, the reason and message to report, and
whether more capacity could help. Entry points: `gang_status.GangStatusWriter`,
`queue_status.QueueStatusWriter`, `pod_group_status.PodGroupStatusWriter`;
`default_queue.DefaultQueueController` creates the Queue object of the default queue.
"""
