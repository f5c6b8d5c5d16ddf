"""The AWS of one machine: the deployed handlers run here unchanged. Used by `make run` and the tests, never deployed.

    stack           starts and stops everything below, in order; `python -m local` is its doorway
    postgres        an embedded PostgreSQL, or nothing where the user brings a database
    functions       the table of the deployed functions: folder, timeout, concurrency, destination, database role
    lambda_service  boto3's `Invoke` over HTTP, and an admin endpoint for faults and introspection
      dispatcher    synchronous and asynchronous invocations as AWS does them: retries, event age, OnFailure
      pool          the execution environments of one function: warm reuse, concurrency
      environment   one execution environment: a process that runs one invocation at a time
      runtime       the program inside that process: imports the handler, calls it with a LambdaContext
      faults        what tests inject: loss, doubling, delay, refusal
    gateway         HTTP into API Gateway events (payload 2.0, `payload`) and back
    clock           EventBridge's rule: triggers the scheduler every minute
    aws             moto, for SQS and CloudWatch

What it does not imitate: IAM, memory limits, the freezing of an environment between invocations, X-Ray.
"""
