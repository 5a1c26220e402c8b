"""An object store on S3, or on any server that speaks its protocol.

`settings` specifies which bucket of which server; `client` is boto3, imported on first use and
called in threads, with its errors translated; `multipart` writes large objects; `store` is the
`ObjectStore`.
"""
