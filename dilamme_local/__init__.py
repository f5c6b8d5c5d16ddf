"""The AWS of one machine: the deployed handlers run here unchanged. Used by `make run` and the tests, never deployed.

    stack           starts and stops everything below, in order, as `options` say; `dilamme dev` is its doorway
    postgres        an embedded PostgreSQL, on a `leash` so that it cannot outlive the stack
    private         folders and files for their owner alone
    inherited       what of the user's shell reaches the processes below
    functions       the table of the deployed functions: folder, timeout, concurrency, destination, database role
    lambda_service  boto3's `Invoke` over HTTP, and an admin endpoint for faults and introspection
      events        asynchronous invocations as AWS does them: retries, event age, OnFailure
      dispatcher    runs invocations, knows which run and how many ran
      pool          the execution environments of one function: warm reuse, concurrency
      environment   one execution environment: a process that runs one invocation at a time
      runtime       the program inside that process: imports the handler, calls it with a LambdaContext
      faults        what tests inject: loss, doubling, delay, refusal
    strangers       which requests come from this machine, and which from a web page of another origin
    gateway         HTTP into API Gateway events (`payload` format 2.0) and back
    clock           EventBridge's rule: triggers the scheduler every minute
    aws             moto, for SQS and CloudWatch, in a process of its own

What it does not imitate: IAM, memory limits, the freezing of an environment between invocations, X-Ray.
"""
