#!/bin/sh
# What Spark starts in the pod of an executor is the argument `executor`; all else is in the environment.
# Anything else is a command, such as `fieldfare pipeline run …`.
set -e
if [ "$1" != executor ]; then
    exec "$@"
fi
set --
number=0
while options=$(printenv "SPARK_JAVA_OPT_$number"); do
    set -- "$@" "$options"
    number=$((number + 1))
done
exec java "$@" -Xms"$SPARK_EXECUTOR_MEMORY" -Xmx"$SPARK_EXECUTOR_MEMORY" -cp "$SPARK_HOME/conf:$SPARK_HOME/jars/*" \
    org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
    --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
    --app-id "$SPARK_APPLICATION_ID" --hostname "$SPARK_EXECUTOR_POD_IP" \
    --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" --podName "$SPARK_EXECUTOR_POD_NAME"
