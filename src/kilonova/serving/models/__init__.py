"""Models over servers: which server has which, and that it is so, at run time.

- A model is **managed** if the `modelPlacement` of its group lists it. Other models of a server
  are left alone.
- A **copy** is a model that is loaded on a server. A model on **demand** (`minCopies: 0`) has none
  until requests ask for it.
- The **placement** specifies which server is to have which models (`placement`), a **change** is
  one step on one server towards it (`changes`). Both are pure, as is `desire`, which has them
  decide.
- The **loader** asks servers what they have, by the repository extension of the v2 protocol,
  executes the changes, and publishes what is loaded as an annotation of the server's pod, by
  which the gateway routes requests. A model leaves the annotation before it is unloaded.
"""
