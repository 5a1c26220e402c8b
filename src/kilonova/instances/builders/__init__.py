"""What an instance consists of: its PodGang, pods and Service, and a Reservation to relocate to.

`engine` resolves a spec and its build to what is needed; the other modules build objects of that.
All of it is pure, and makes no difference between an instance that exists and one that is only
asked about.
"""
