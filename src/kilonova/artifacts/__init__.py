"""What engines run from: builds and tokenizers, in a directory, an OCI registry or S3.

- A **build** specifies what an instance needs: agents, accelerators and memory of each, topology,
  partitions.
- A **tokenizer** has files with checksums, and names: `org/model`, or `org_model` in lower case.
"""

DEFAULT_TOKENIZER_STORE = "/nfs/supernova/tokenizers"
"""Where a cluster has tokenizers, unless configured otherwise."""
